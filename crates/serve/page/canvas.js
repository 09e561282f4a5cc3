// The canvas of tokens: masks, newest commits, confidence by shade. One tab stop; arrow keys move inside.

import { el, quoted, short, visible } from "./dom.js";
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
    let ended = 0;
    for (const cell of cells.slice(view.start)) {
      if (cell.kind === Kind.Filled && !view.masking) ended++;
      else shown.push(this.#chip(cell, view));
    }
    const positions = new Set(cells.slice(view.start).map((cell) => cell.position));
    for (const position of this.chips.keys()) if (!positions.has(position)) this.chips.delete(position);
    const tail = ended ? [el("span", { class: "ended", title: "filled after the end of sequence" }, `+ ${ended} filled`)] : [];
    this.root.replaceChildren(...shown, ...tail);
    if (!this.chips.has(this.focused)) this.focused = shown[0] ? Number(shown[0].dataset.position) : null;
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

  #chip(cell, view) {
    const masked = view.masking?.has(cell.position) ?? cell.kind === Kind.Masked;
    const hole = masked || cell.kind === Kind.Masked;
    let chip = this.chips.get(cell.position);
    const state = [cell.kind, cell.token, cell.newest, hole, view.shade, view.steps, view.masking !== null].join();
    if (chip?.dataset.state === state) return chip;
    const fresh = el("button", { type: "button", tabIndex: -1, title: describe(cell, hole) });
    const kind = hole ? "masked" : cell.kind;
    fresh.className = `token ${kind}${cell.newest && !hole ? " newest" : ""}${cell.end && !hole ? " end" : ""}`;
    fresh.textContent = hole || cell.end ? "" : visible(cell.text).replace(/^ /, "");
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
