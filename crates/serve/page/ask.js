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
    this.problem = null;
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
    at("text").addEventListener("input", () => (this.problem = null));
    this.#mode();
  }

  get mode() {
    return document.querySelector("input[name=mode]:checked").value;
  }

  get text() {
    return at("text").value;
  }

  /** Fills the list of tasks, if this model has any, and takes the first problem. */
  async offerTasks() {
    const { data } = await get("v1/tasks");
    if (!data.length) return;
    at("tasks").hidden = false;
    at("task").replaceChildren(...data.map((task) => el("option", { value: task.id }, `${task.id}: ${task.summary}`)));
    const draw = () => this.pose(at("task").value, this.next++);
    at("problem").addEventListener("click", draw);
    at("task").addEventListener("change", draw);
    await draw();
  }

  /** Puts a problem into the form. */
  async pose(task, index) {
    const posed = await post("v1/tasks/problem", { task, index });
    if (this.mode === "gaps") {
      document.querySelector("input[name=mode][value=prompt]").checked = true;
      this.#mode();
    }
    at("text").value = posed.prompt;
    this.problem = posed;
  }

  /** The judgement of an answer to the problem that was asked, or null where there was none. */
  static async judge(problem, response) {
    if (!problem) return null;
    const { task, index, answer } = problem;
    const verdict = await post("v1/tasks/check", { task, index, response });
    const found = verdict.extracted === null ? "no answer was found" : "";
    const loose = verdict.correct && verdict.strict === false ? "the answer; not every word before it" : "";
    return { ok: verdict.correct, text: verdict.correct ? loose : `${found ? found + "; " : ""}one right answer: ${answer}` };
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

const number = (id) => Number(at(id).value);
