// The canvas of tokens: masks, newest commits, confidence by shade. One tab stop; arrow keys move inside.

import { counted, el, quoted, short, visible } from "./dom.js";
import { Kind } from "./run.js";

export class TokenCanvas {
  /** `events`: point(position | null), toggle(position). */
  constructor(label, events) {
    this.events = events;
    this.root = el("div", { class: "tokens", role: "group", "aria-label": label });
    this.chips = new Map();
    this.focused = null;
    this.root.addEventListener("pointerover", (e) => this.#point(e.target));
    this.root.addEventListener("pointerleave", () => this.events.point(null));
    this.root.addEventListener("focusin", (e) => this.#point(e.target));
    this.root.addEventListener("focusout", () => this.events.point(null));
    this.root.addEventListener("click", (e) => this.#click(e.target));
    this.root.addEventListener("keydown", (e) => this.#key(e));
  }

  /** Shows cells. `view`: { start, shade, steps, masking: Set | null }. */
  show(cells, view) {
    const shown = [];
    for (const part of parts(cells.slice(view.start), view)) {
      if (Array.isArray(part)) {
        shown.push(...this.#ends(part, view));
        continue;
      }
      const chip = this.#chip(part, view);
      shown.push(chip);
      if (!chip.classList.contains("masked") && part.text.includes("\n")) shown.push(...lineBreak(part.text));
    }
    const positions = new Set(cells.slice(view.start).map((cell) => cell.position));
    for (const position of this.chips.keys()) if (!positions.has(position)) this.chips.delete(position);
    this.root.replaceChildren(...shown);
    // The tallest frame so far keeps its room, so that what is below does not jump.
    if (this.run !== view.run) [this.run, this.tallest] = [view.run, 0];
    this.tallest = Math.max(this.tallest, this.#height());
    this.root.style.setProperty("--tallest", `${this.tallest}px`);
    if (!this.chips.get(this.focused)?.isConnected) this.focused = Number(shown[0]?.dataset.position ?? NaN);
    const stop = this.chips.get(this.focused);
    if (stop) stop.tabIndex = 0;
  }

  /** Tints the tokens that one token depends on: position → weight in 0..1. */
  tint(weights, focus) {
    for (const [position, chip] of this.chips) {
      const weight = weights?.get(position) ?? 0;
      chip.classList.toggle("tied", weight > 0.02);
      chip.style.setProperty("--tie", weight.toFixed(3));
      chip.classList.toggle("subject", position === focus);
    }
  }

  /** Many ends in a row: one of them, and how many they are. */
  #ends(cells, view) {
    const filled = cells.filter((cell) => cell.kind === Kind.Filled).length;
    const face = cells.find((cell) => cell.kind !== Kind.Filled) ?? cells[0];
    const newest = cells.some((cell) => cell.newest);
    const words = [cells.length > filled ? `${counted(cells.length - filled, "end token")}` : "", filled ? `${filled} filled without a pass` : ""];
    const note = el("span", { class: "ended" }, words.filter(Boolean).join(", "));
    return [this.#chip({ ...face, newest }, view), note];
  }

  #chip(cell, view) {
    const masked = view.masking?.has(cell.position) ?? cell.kind === Kind.Masked;
    const hole = masked || cell.kind === Kind.Masked;
    let chip = this.chips.get(cell.position);
    const state = [cell.kind, cell.token, cell.newest, hole, view.shade, view.steps, view.masking !== null].join();
    if (chip?.dataset.state === state) return chip;
    const fresh = el("button", { type: "button", tabIndex: -1, title: describe(cell, hole) });
    const kind = hole ? "masked" : cell.kind;
    fresh.className = `token ${kind}${cell.newest && !hole ? " newest" : ""}${cell.end && !hole ? " end" : ""}`;
    fresh.textContent = hole || cell.end ? "" : visible(cell.text).replace(/^ (?=\S)/, "");
    fresh.classList.toggle("spaced", !hole && !cell.end && /^ \S/.test(cell.text));
    fresh.setAttribute("aria-label", describe(cell, hole));
    if (view.masking) fresh.setAttribute("aria-pressed", String(masked));
    fresh.style.setProperty("--shade", shade(cell, view).toFixed(3));
    fresh.dataset.position = cell.position;
    fresh.dataset.state = state;
    if (chip && document.activeElement === chip) queueMicrotask(() => fresh.focus());
    this.chips.set(cell.position, fresh);
    return fresh;
  }

  #height() {
    const last = this.root.lastElementChild;
    return last ? last.offsetTop + last.offsetHeight - this.root.offsetTop : 0;
  }

  #position(target) {
    const chip = target.closest?.(".token");
    return chip ? Number(chip.dataset.position) : null;
  }

  #point(target) {
    this.events.point(this.#position(target));
  }

  #click(target) {
    const position = this.#position(target);
    if (position !== null) this.events.toggle(position);
  }

  #key(event) {
    const chips = [...this.root.querySelectorAll(".token")];
    const at = chips.indexOf(document.activeElement);
    const moves = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: chips.length - 1 };
    const next = chips[moves[event.key]];
    if (at < 0 || !next) return;
    event.preventDefault();
    chips[at].tabIndex = -1;
    next.tabIndex = 0;
    this.focused = Number(next.dataset.position);
    next.focus();
  }
}

/** The cells, with ends that follow one another as one list; a short answer on a long canvas stays short. */
function parts(cells, view) {
  if (view.masking) return cells;
  const parts = [];
  for (const cell of cells) {
    const end = cell.end && cell.kind !== Kind.Given;
    if (!end) parts.push(cell);
    else if (Array.isArray(parts.at(-1))) parts.at(-1).push(cell);
    else parts.push([cell]);
  }
  return parts.flatMap((part) => (Array.isArray(part) && part.length === 1 && part[0].kind !== Kind.Filled ? part : [part]));
}

/** Line ends of a token, and the spaces that begin its last line. */
function lineBreak(text) {
  const breaks = text.split("\n").slice(1).map((_, i) => el("span", { class: i ? "break empty" : "break" }));
  const indent = text.slice(text.lastIndexOf("\n") + 1);
  return /^ +$/.test(indent) ? [...breaks, el("span", { class: "indent" }, indent)] : breaks;
}

/** How dark a token is, 0 to 1. */
function shade(cell, view) {
  if (cell.kind !== Kind.Committed) return 0;
  return view.shade === "step" ? 1 - (cell.step - 1) / Math.max(view.steps, 1) : cell.confidence;
}

/** The token in words, for the tooltip and for screen readers. */
function describe(cell, hole) {
  const place = `position ${cell.position}`;
  if (hole) return cell.again ? `masked again in step ${cell.again}, ${place}` : `masked, ${place}`;
  if (cell.kind === Kind.Given) return `${quoted(cell.text)} given, ${place}`;
  if (cell.kind === Kind.Filled) return `end of sequence, filled in step ${cell.step}, ${place}`;
  const text = cell.end ? "end of sequence" : quoted(cell.text);
  return `${text} committed in step ${cell.step}, confidence ${short(cell.confidence)}, ${place}`;
}
