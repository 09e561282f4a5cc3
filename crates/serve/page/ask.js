// The form: what is asked, of which decoders, and the tasks to try.

import { get, post } from "./api.js";
import { at, el } from "./dom.js";

/** Matrices are quadratic; longer canvases go without. */
const LONGEST_WITH_MATRIX = 256;
const WORDS = {
  prompt: ["Prompt", "Ctrl+Enter runs."],
  chat: ["Your message", "Ctrl+Enter sends."],
  gaps: ["Text", "[MASK] is a gap of one token, [MASK:5] of five. A text without gaps becomes tokens to click on."],
};

export class Ask {
  constructor(model) {
    this.model = model;
    this.turns = [];
    this.posed = null;
    this.next = Math.floor(Math.random() * 1000);
    at("length").max = model.max_tokens;
    at("length").value = Math.min(model.default_tokens, 96);
    at("template-row").hidden = !model.chat;
    for (const radio of document.querySelectorAll("input[name=mode]")) {
      if (radio.value === "chat" && !model.chat) {
        radio.disabled = true;
        radio.parentElement.title = "this model has no chat template";
      }
      radio.addEventListener("change", () => this.#mode());
    }
    at("forget").addEventListener("click", () => this.forget());
    this.#mode();
  }

  get mode() {
    return document.querySelector("input[name=mode]:checked").value;
  }

  get text() {
    return at("text").value;
  }

  /** The problem that the text is, word for word; an edited one has no right answer that is known. */
  get problem() {
    return this.mode === "prompt" && this.posed?.prompt === this.text ? this.posed : null;
  }

  /** Fills the list of tasks, if this model has any. */
  async offerTasks() {
    const { data } = await get("v1/tasks");
    if (!data.length) return;
    at("tasks").hidden = false;
    at("task").replaceChildren(...data.map((task) => el("option", { value: task.id }, `${task.id}: ${task.summary}`)));
    at("problem").addEventListener("click", () => this.pose());
    at("task").addEventListener("change", () => this.pose());
  }

  /** Puts another problem into the form, where there are any. */
  async pose() {
    if (at("tasks").hidden) return;
    this.take(await post("v1/tasks/problem", { task: at("task").value, index: this.next++ }));
  }

  /** Takes a problem over. */
  take(problem) {
    if (this.mode === "gaps") this.#choose("prompt");
    at("task").value = problem.task;
    at("text").value = problem.prompt;
    this.posed = problem;
  }

  /** What of the form an address has to name; null where a run hangs on more than that. */
  address(asked) {
    if (!asked || !["prompt", "gaps"].includes(asked.mode)) return null;
    const told = new URLSearchParams({ text: asked.text });
    if (asked.mode === "gaps") told.set("mode", asked.mode);
    for (const id of ["seed", "temperature", "length", "block"]) if (at(id).value !== "") told.set(id, at(id).value);
    if (this.model.chat && !at("template").checked) told.set("template", "no");
    if (asked.problem) {
      told.set("task", asked.problem.task);
      told.set("problem", asked.problem.index);
    }
    return told;
  }

  /** Fills the form from an address. */
  async read(told) {
    this.#choose(told.get("mode") === "gaps" ? "gaps" : "prompt");
    for (const id of ["seed", "temperature", "length", "block"]) if (told.has(id)) at(id).value = told.get(id);
    at("template").checked = told.get("template") !== "no";
    at("text").value = told.get("text");
    const index = Number(told.get("problem"));
    if (!told.has("task") || at("tasks").hidden || !Number.isSafeInteger(index)) return;
    const posed = await post("v1/tasks/problem", { task: told.get("task"), index }).catch(() => null);
    if (posed) this.posed = posed;
    if (posed) at("task").value = posed.task;
  }

  /** The judgement of an answer to the problem that was asked, or null where there was none. */
  static async judge(problem, response) {
    if (!problem) return null;
    const { task, index } = problem;
    return verdictText(await post("v1/tasks/check", { task, index, response }), problem);
  }

  /** The request of a decoder. */
  body(spelling, seed) {
    const { mode } = this;
    const body = {
      strategy: spelling,
      seed,
      temperature: number("temperature"),
    };
    if (at("block").value !== "") body.block_length = number("block");
    if (mode === "gaps") body.text = this.text;
    else body.max_tokens = number("length");
    if (mode === "chat") body.messages = [...this.turns, { role: "user", content: this.text }];
    else if (mode === "prompt" && this.model.chat && at("template").checked) {
      body.messages = [{ role: "user", content: this.text }];
    } else if (mode === "prompt") body.prompt = this.text;
    body.include_dependency = (body.max_tokens ?? 0) <= LONGEST_WITH_MATRIX;
    return body;
  }

  /** A finished exchange of a chat. */
  said(question, answer) {
    this.turns.push({ role: "user", content: question }, { role: "assistant", content: answer });
    at("text").value = "";
    this.#log();
  }

  forget() {
    this.turns = [];
    this.#log();
  }

  #log() {
    const names = { user: "You", assistant: "Model" };
    at("log").replaceChildren(
      ...this.turns.map((turn) => el("li", { class: turn.role }, el("b", {}, names[turn.role]), el("p", {}, turn.content))),
    );
    at("log").lastElementChild?.scrollIntoView({ block: "nearest" });
    at("forget").hidden = this.turns.length === 0;
  }

  #choose(mode) {
    document.querySelector(`input[name=mode][value=${mode}]`).checked = true;
    this.#mode();
  }

  #mode() {
    const { mode } = this;
    const [label, hint] = WORDS[mode];
    at("text-label").textContent = label;
    at("hint").textContent = hint;
    at("talk").hidden = mode !== "chat";
    at("template-row").hidden = !this.model.chat || mode !== "prompt";
    at("length").closest("label").hidden = mode === "gaps";
    at("length").disabled = mode === "gaps";
    this.#log();
  }
}

/** A judgement in words: what was checked, on which problem, and what is right where the answer is not. */
export function verdictText(verdict, problem) {
  if (!verdict) return null;
  const found = verdict.extracted === null ? "nothing of the kind was found" : `found “${verdict.extracted.trim()}”`;
  const strict = verdict.correct && verdict.strict === false ? "; not every word before it holds" : "";
  const right = verdict.correct ? "" : `; one right answer: ${problem.answer}`;
  return {
    ok: verdict.correct,
    text: `Checked ${verdict.checked} of ${problem.task} problem ${problem.index}: ${found}${strict}${right}`,
  };
}

const number = (id) => Number(at(id).value);
