// The strip of steps: tokens committed and budget spent in each, a click goes there.

import { counted, el, short, svg } from "./dom.js";

const HEIGHT = 40;
const WHY = {
  count: "the scheduled number was reached",
  "no-candidate": "no other token was confident enough",
  budget: "the next token would have exceeded the budget",
  fallback: "nothing passed, so the fallback was taken",
  "all-taken": "every mask was taken",
};

export class StepStrip {
  constructor(go) {
    this.go = go;
    this.chart = svg("svg", { class: "strip", role: "img" });
    this.note = el("p", { class: "note" });
    this.budgetKey = el("span", { class: "budget-key" }, "predicted dependency among them; dashed: the budget τ");
    const legend = el("figcaption", { class: "legend" }, el("span", {}, "tokens written in each step"), this.budgetKey);
    this.root = el("figure", { class: "steps" }, legend, this.chart, this.note);
    this.chart.addEventListener("click", (event) => {
      const bar = event.target.closest("[data-step]");
      if (bar) this.go(Number(bar.dataset.step));
    });
  }

  /** Draws all steps of a run, with the first `count` done, on a scale of `most` steps. */
  show(run, count, most) {
    const { steps } = run;
    const budgeted = steps.some((step) => step.budget);
    const tallest = Math.max(1, ...steps.map((step) => step.commits.length));
    const limit = Math.max(0, ...steps.map((step) => Math.max(step.budget?.limit ?? 0, step.budget?.used ?? 0)));
    const width = 10;
    const total = Math.max(most, 24) * width;
    const height = budgeted ? 2 * HEIGHT + 8 : HEIGHT;
    this.chart.setAttribute("viewBox", `0 0 ${total} ${height}`);
    this.chart.setAttribute("preserveAspectRatio", "none");
    this.chart.classList.toggle("budgeted", budgeted);
    this.budgetKey.hidden = !budgeted;
    this.chart.setAttribute("aria-label", summary(run));
    const bars = steps.map((step, i) => this.#bar(run, i, { width, tallest, limit, height, budgeted, count }));
    const lines = [];
    const bound = steps.find((step) => step.budget)?.budget.limit;
    if (budgeted && limit > 0 && Number.isFinite(bound)) {
      const y = height - (bound / limit) * HEIGHT;
      lines.push(svg("line", { class: "limit", x1: 0, x2: total, y1: y, y2: y }));
    }
    this.chart.replaceChildren(...bars, ...lines);
    this.note.replaceChildren(...this.#words(run, count));
  }

  #bar(run, index, { width, tallest, limit, height, budgeted, count }) {
    const step = run.steps[index];
    const x = index * width + 1;
    const tall = (step.commits.length / tallest) * (HEIGHT - 2);
    const parts = [
      svg("rect", { class: "hit", x: x - 1, y: 0, width, height }),
      svg("rect", { class: "tokens-bar", x, y: HEIGHT - tall, width: width - 2, height: tall, rx: 1 }),
    ];
    if (budgeted && step.budget && limit > 0) {
      const spent = Math.max((step.budget.used / limit) * HEIGHT, step.budget.used > 0 ? 1 : 0);
      parts.push(svg("rect", { class: "budget-bar", x, y: height - spent, width: width - 2, height: spent, rx: 1 }));
    }
    const state = index + 1 === count ? "now" : index < count ? "past" : "ahead";
    const title = svg("title");
    title.textContent = sentence(run, index);
    return svg("g", { class: `bar ${state}`, "data-step": index + 1 }, title, ...parts);
  }

  #words(run, count) {
    const step = run.steps[Math.max(count, 1) - 1];
    if (!step) return [];
    return [sentence(run, Math.max(count, 1) - 1)];
  }
}

function sentence(run, index) {
  const step = run.steps[index];
  const { tokens, ends } = run.written(step);
  const budget = step.budget ? ` · budget ${short(step.budget.used)} of ${short(step.budget.limit)}` : "";
  const why = WHY[step.stop] ? ` · ${WHY[step.stop]}` : "";
  return `Step ${index + 1}: ${counted(tokens, "token")}${ends ? ` and ${counted(ends, "end token")}` : ""}${budget}${why}`;
}

function summary(run) {
  const counts = run.steps.map((step) => step.commits.length).join(", ");
  return `Tokens committed in ${counted(run.steps.length, "step")}: ${counts}`;
}
