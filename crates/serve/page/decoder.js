// Choosing a decoder and its parameters. The spelling is that of the command line: NAME:key=value,…

import { el, short } from "./dom.js";

/** Parameters that are shown at once; the others are a click away. */
const FIRST = ["tau", "gamma", "k", "steps", "threshold", "conf", "kl"];
/** A slider without an upper bound is logarithmic between these powers of ten, with 0 at its left end. */
const POWERS = [-3, 1];
const MARKS = 200;

export class Decoder {
  /** `changed(byslider)` is told of every change. */
  constructor(root, title, strategies, spelled, changed) {
    this.changed = changed;
    this.strategies = strategies;
    this.id = root.id;
    this.params = el("div", { class: "params" });
    this.summary = el("p", { class: "hint" });
    const options = strategies.map((s) =>
      el("option", { value: s.id, disabled: !s.available }, s.available ? s.id : `${s.id} (needs what this model lacks)`),
    );
    this.select = el("select", { id: `${this.id}-name` }, ...options);
    this.select.addEventListener("change", () => {
      this.#choose(this.select.value, {});
      this.changed(false);
    });
    const label = el("label", { class: "sr", htmlFor: this.select.id }, `${title}: strategy`);
    root.replaceChildren(el("legend", {}, title), label, this.select, this.summary, this.params);
    this.spell(spelled);
  }

  /** Takes a spelling over. */
  spell(text) {
    const [name, rest = ""] = text.split(":");
    const given = Object.fromEntries(rest.split(",").filter(Boolean).map((pair) => pair.split("=")));
    this.#choose(name, given);
  }

  /** NAME:key=value,… with what differs from the strategy's own defaults, so that it means the same on any model. */
  get spelling() {
    const changed = this.current.params.filter((p) => this.values[p.key] !== "" && this.values[p.key] !== p.default);
    const given = changed.map((p) => `${p.key}=${this.values[p.key]}`).join(",");
    return given ? `${this.current.id}:${given}` : this.current.id;
  }

  #choose(name, given) {
    this.current = this.strategies.find((s) => s.id === name) ?? this.strategies[0];
    this.select.value = this.current.id;
    this.summary.textContent = this.current.summary;
    // A name alone is this model's choice; a spelling with parameters is taken as it is written.
    const bare = Object.keys(given).length === 0;
    const start = (p) => given[p.key] ?? (bare ? p.own : null) ?? p.default;
    this.values = Object.fromEntries(this.current.params.map((p) => [p.key, start(p)]));
    const first = this.current.params.filter((p) => FIRST.includes(p.key));
    const later = this.current.params.filter((p) => !FIRST.includes(p.key));
    const rows = first.map((p) => this.#row(p));
    if (later.length) {
      const fold = el("details", {}, el("summary", {}, "Other parameters"), ...later.map((p) => this.#row(p)));
      rows.push(fold);
    }
    this.params.replaceChildren(...rows);
  }

  #row(param) {
    const id = `${this.id}-${param.key}`;
    const name = { tau: "τ", gamma: "γ" }[param.key] ?? param.key;
    const set = (value, slider) => {
      this.values[param.key] = value;
      this.changed(slider);
    };
    const control = param.kind === "number" ? this.#slider(param, id, set) : this.#plain(param, id, set);
    const chosen = param.own ? `; ${param.own} was chosen for this model, ${param.default || "none"} is usual` : "";
    const help = `${param.help}${chosen}`;
    const label = el("label", { htmlFor: id, title: help }, el("b", {}, name), el("span", { class: "hint" }, help));
    return el("div", { class: `param ${param.kind}` }, label, ...control);
  }

  #slider(param, id, set) {
    const log = param.high === null;
    const value = Number(this.values[param.key]);
    const place = log ? toMark(value) : value;
    const range = log ? { min: 0, max: MARKS, step: 1 } : { min: param.low, max: param.high, step: 0.01 };
    const input = el("input", { type: "range", id, ...range });
    input.value = place;
    const output = el("output", { htmlFor: id }, short(value));
    const read = () => (log ? fromMark(Number(input.value)) : Number(input.value));
    const tell = () => {
      output.textContent = short(read());
      input.setAttribute("aria-valuetext", short(read()));
    };
    tell();
    output.textContent = short(value);
    input.addEventListener("input", () => {
      tell();
      this.values[param.key] = String(read());
    });
    input.addEventListener("change", () => set(String(read()), true));
    return [input, output];
  }

  #plain(param, id, set) {
    if (param.kind === "choice") {
      const options = param.words.map((word) => el("option", { value: word }, word));
      const select = el("select", { id }, ...options);
      select.value = this.values[param.key];
      select.addEventListener("change", () => set(select.value, true));
      return [select];
    }
    const input = el("input", { type: "number", id, min: param.low, step: 1, placeholder: "auto" });
    input.value = this.values[param.key];
    input.addEventListener("change", () => set(input.value, true));
    return [input];
  }
}

function fromMark(mark) {
  if (mark === 0) return 0;
  const power = POWERS[0] + ((mark - 1) / (MARKS - 1)) * (POWERS[1] - POWERS[0]);
  return Number((10 ** power).toPrecision(2));
}

function toMark(value) {
  if (!(value > 0)) return 0;
  const share = (Math.log10(value) - POWERS[0]) / (POWERS[1] - POWERS[0]);
  return Math.round(1 + Math.min(1, Math.max(0, share)) * (MARKS - 1));
}
