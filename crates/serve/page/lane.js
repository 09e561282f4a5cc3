// One decoder's lane: its canvas, what it cost, its steps, and what can be done with the run.

import { TokenCanvas } from "./canvas.js";
import { at, el, seconds } from "./dom.js";
import { Kind } from "./run.js";
import { StepStrip } from "./steps.js";

export class Lane {
  /** `events`: point(lane, position), seek(count), fill(lane, tokens), say(text). */
  constructor(letter, events) {
    this.events = events;
    this.run = null;
    this.count = 0;
    this.masking = null;
    this.name = el("h2", {});
    this.said = el("p", { class: "hint" });
    this.numbers = el("dl", { class: "numbers" });
    this.verdict = el("p", { class: "verdict", hidden: true });
    this.tokens = new TokenCanvas(`Canvas ${letter.toUpperCase()}`, {
      point: (position) => events.point(this, position),
      toggle: (position) => this.#toggle(position),
    });
    this.strip = new StepStrip(events.seek);
    this.maskButton = el("button", { type: "button", "aria-pressed": "false" }, "Mask tokens");
    this.fillButton = el("button", { type: "button", class: "primary", hidden: true }, "Fill the gaps");
    this.saveButton = el("button", { type: "button" }, "Save trace");
    this.maskButton.addEventListener("click", () => this.setMasking(this.masking ? null : new Set()));
    this.fillButton.addEventListener("click", () => this.#fill());
    this.saveButton.addEventListener("click", () => this.#save());
    this.title = el("div", { class: "lane-title" }, this.name, this.said);
    const head = el("header", {}, this.title, this.numbers);
    const actions = el("div", { class: "row lane-actions" }, this.maskButton, this.fillButton, this.saveButton);
    // On a phone the two canvases of a race are what there is room for; the rest is a touch away.
    const open = !matchMedia("(max-width: 860px)").matches;
    this.more = el("details", { class: "lane-more", open }, el("summary", {}, "Steps and actions"), this.strip.root, actions);
    this.root = el("article", { class: `card lane lane-${letter}` }, head, this.tokens.root, this.verdict, this.more);
  }

  /** A new run; it may still be empty. */
  start(run, spelled) {
    this.run = run;
    this.spelled = spelled;
    this.masking = null;
    this.failed = null;
    const [name, ...params] = (run?.strategy ?? spelled).split(":");
    this.name.replaceChildren(name, ...(params.length ? [el("small", {}, `:${params.join(":")}`)] : []));
    this.setVerdict(null);
    this.#buttons();
  }

  get finished() {
    return Boolean(this.run?.done) && this.count >= this.run.steps.length;
  }

  /** Draws the canvas after `count` steps; the longest run beside it has `most`. */
  show(count, most = 0) {
    this.most = Math.max(most, this.run?.steps.length ?? 0);
    if (!this.run) {
      this.tokens.root.replaceChildren();
      this.numbers.replaceChildren();
      this.strip.root.hidden = true;
      return;
    }
    this.count = Math.min(count, this.run.steps.length);
    this.cells = this.run.cells(this.count);
    const whole = at("show-prompt").checked || this.run.hasGaps || this.masking;
    const start = whole ? 0 : this.run.header.response[0];
    const view = { run: this.run, start, shade: at("shade").value, steps: this.run.steps.length, masking: this.masking };
    this.tokens.show(this.cells, view);
    this.strip.show(this.run, this.count, this.most);
    this.strip.root.hidden = this.run.steps.length === 0;
    this.root.classList.toggle("finished", this.finished);
    this.#cost();
    this.#buttons();
  }

  /** The text of a cell as it stands now. */
  textAt(position) {
    const cell = this.cells?.[position];
    return cell && cell.kind !== Kind.Masked ? cell.text : null;
  }

  setMasking(masking) {
    this.masking = masking;
    this.maskButton.setAttribute("aria-pressed", String(Boolean(masking)));
    if (masking) this.events.say("Choose tokens to mask, then fill the gaps.");
    this.show(this.count, this.most);
  }

  /** One line on what the decoder does. */
  explain(text) {
    this.said.textContent = text ?? "";
  }

  /** right: { ok, text } or null. */
  setVerdict(verdict) {
    this.judged = Boolean(verdict);
    this.verdict.hidden = !verdict;
    if (!verdict) return;
    this.verdict.className = `verdict ${verdict.ok ? "right" : "wrong"}`;
    this.verdict.replaceChildren(el("b", {}, verdict.ok ? "✓ Right" : "✗ Wrong"), ` ${verdict.text}`);
  }

  #toggle(position) {
    if (!this.masking) return;
    if (!this.masking.delete(position)) this.masking.add(position);
    this.show(this.count, this.most);
  }

  #fill() {
    const { mask } = this.run.header;
    const tokens = this.cells.map((cell) => (this.masking.has(cell.position) || cell.kind === Kind.Masked ? mask : cell.token));
    this.events.fill(this, tokens);
  }

  #save() {
    const file = new Blob([this.run.toTrace()], { type: "application/jsonl" });
    const link = el("a", { href: URL.createObjectURL(file), download: `${this.run.strategy.replace(/[^\w.=-]+/g, "_")}.trace.jsonl` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  #cost() {
    const { steps, forwards, tokens, assistantRows, innerCalls, extra, seconds: spent } = this.run.cost(this.count);
    const all = this.run.cost(this.run.steps.length);
    const pairs = [["steps", String(steps), "one iteration of the decoder each"]];
    // What a step costs besides one pass is shown wherever a strategy pays it.
    if (all.forwards !== all.steps) pairs.push(["passes", String(forwards), "forward passes of the model, several in a step"]);
    if (all.assistantRows) pairs.push(["assistant rows", String(assistantRows), "rows that the second model computed"]);
    if (all.innerCalls) pairs.push(["inner calls", String(innerCalls), "calls of a small trained part (a layer, a policy, a prior) within a step"]);
    if (all.assistantRows || all.innerCalls) pairs.push(["their time", seconds(extra), "of the second model or the trained part; within the model time"]);
    pairs.push(
      ["tokens", String(tokens), "tokens before the end of the text"],
      ["per pass", forwards ? (tokens / forwards).toFixed(1) : "–", "tokens before the end for each forward pass"],
      ["model time", seconds(spent), "this run's share of the time the model was busy"],
    );
    this.numbers.replaceChildren(
      ...pairs.map(([name, value, title]) => el("div", { title }, el("dt", {}, name), el("dd", {}, value))),
    );
  }

  #buttons() {
    const whole = this.finished || this.masking !== null;
    this.maskButton.disabled = !whole;
    this.saveButton.disabled = !this.run?.done || this.run.steps.length === 0;
    this.fillButton.hidden = !this.masking;
    this.fillButton.disabled = !this.masking?.size;
  }
}
