// The stage: the lanes of a race, the replay and the dependency matrix. The page and a saved replay show the same one.

import { at, counted, quoted, seconds, short } from "./dom.js";
import { HeatMap } from "./heat.js";
import { Lane } from "./lane.js";
import { Player } from "./replay.js";

const WORDS = {
  demask: "writes in each step the largest set of tokens whose predicted dependency stays within a budget",
  entropy: "writes in each step the token it is surest of",
};

export class Stage {
  /** `events`: settled() after a live run, fill(lane, tokens) for gaps, say(text) for screen readers. */
  constructor(events) {
    this.player = new Player((count) => this.#show(count), () => events.settled());
    const toLane = {
      point: (lane, position) => this.pointAt(lane, position),
      seek: (count) => this.player.seek(count),
      fill: (lane, tokens) => events.fill(lane, tokens),
      say: (text) => events.say(text),
    };
    this.both = [new Lane("a", toLane), new Lane("b", toLane)];
    this.watched = null;
    this.heat = new HeatMap((position) => this.pointAt(this.watched, position, true));
    for (const id of ["shade", "show-prompt"]) at(id).addEventListener("change", () => this.player.seek(this.player.count));
  }

  /** The lanes that are shown. */
  get lanes() {
    return this.both.filter((lane) => lane.root.isConnected);
  }

  /** Shows so many lanes, without runs yet. */
  clear(spellings) {
    at("outcome").textContent = at("remark").textContent = "";
    at("lanes").replaceChildren(...this.both.slice(0, spellings.length).map((lane) => lane.root));
    this.lanes.forEach((lane, i) => this.begin(lane, null, spellings[i]));
    this.watched = this.lanes[0];
  }

  /** A run, maybe still empty, takes its lane. */
  begin(lane, run, spelled) {
    lane.start(run, spelled);
    const name = (run?.strategy ?? spelled).split(":")[0];
    lane.explain(/^entropy(:|$)/.test(spelled) && /k=|steps=/.test(spelled) ? "" : WORDS[name]);
  }

  /** Shows whole runs, at their end or from the beginning on. */
  load(runs, play) {
    this.clear(runs.map((run) => run.strategy));
    this.lanes.forEach((lane, i) => this.begin(lane, runs[i], runs[i].strategy));
    this.player.load(Math.max(...runs.map((run) => run.steps.length)), play);
    this.compare();
  }

  /** One line on who was faster, in steps and in time, where two runs are finished. */
  compare() {
    const runs = this.lanes.map((lane) => lane.run).filter((run) => run?.done && run.steps.length);
    if (runs.length < 2) return;
    const costs = runs.map((run) => run.cost(run.steps.length));
    const [fast, slow] = costs[0].forwards <= costs[1].forwards ? [0, 1] : [1, 0];
    const [few, many] = [costs[fast], costs[slow]];
    const times = (a, b) => (a / b).toFixed(1);
    const [winner, loser] = [fast, slow].map((i) => runs[i].strategy.split(":")[0]);
    const passes = times(many.forwards, few.forwards);
    const lead = few.forwards === many.forwards
      ? `${winner} took as many passes as ${loser} (${few.forwards})`
      : passes === "1.0"
        ? `${winner} took nearly as many passes as ${loser} (${few.forwards} against ${many.forwards})`
        : `${winner} took ${passes}× fewer passes than ${loser} (${few.forwards} against ${many.forwards})`;
    const [less, more] = [times(many.seconds, few.seconds), times(few.seconds, many.seconds)];
    const clock = `(${seconds(few.seconds)} against ${seconds(many.seconds)})`;
    const spent = few.seconds <= many.seconds
      ? less === "1.0" ? `about as much time ${clock}` : `${less}× less time ${clock}`
      : more === "1.0" ? `about as much time ${clock}` : `${more}× more time ${clock}`;
    // Passes hide what a second model or a trained part computed.
    const beside = [fast, slow].flatMap((i) => {
      const counts = [[costs[i].assistantRows, "assistant row"], [costs[i].innerCalls, "inner call"]];
      return counts.filter(([count]) => count).map(([count, what]) => `${counted(count, what)} of ${runs[i].strategy.split(":")[0]}`);
    });
    const besides = beside.length ? ` (besides passes: ${beside.join(", ")})` : "";
    const texts = runs.map((run) => run.done.text);
    const same = texts.includes(null) ? "" : texts[0] === texts[1] ? ", with the same text" : ", with different texts";
    at("outcome").textContent = `${lead}${besides} and ${spent}${same}.`;
  }

  #show(count) {
    for (const lane of this.lanes) lane.show(count, this.player.most);
    // Who won is told when it has been seen.
    at("stage").classList.toggle("under-way", this.player.most === 0 || count < this.player.most);
    this.draw();
  }

  /** The lane whose matrices are looked at: the watched one, if it has any. */
  #source() {
    const has = (lane) => lane?.run?.steps.some((step) => step.dependency);
    return [this.watched, ...this.lanes].find((lane) => this.lanes.includes(lane) && has(lane)) ?? null;
  }

  /** Draws the matrix of the moment. */
  draw() {
    const lane = this.#source();
    const shown = lane?.run.matrix(lane.count) ?? null;
    this.heat.show(shown, lane ? nameIn(lane) : null);
    at("lesson").textContent = lane && lane.finished ? lesson(lane) : "";
  }

  /** Links a token, its dependencies and the heat map. */
  pointAt(lane, position, fromHeat = false) {
    if (!lane?.run) return;
    if (position !== null && this.watched !== lane && lane.run.matrix(lane.count)) {
      this.watched = lane;
      this.draw();
    }
    const matrix = position === null ? null : lane.run.matrixOf(position, lane.count);
    // A token decided earlier is shown in the matrix it was chosen from.
    if (!fromHeat && lane === this.watched) {
      if (matrix) this.heat.show(matrix, nameIn(lane));
      else this.draw();
    }
    const top = matrix ? Math.max(...matrix.values, 1e-9) : 1;
    const weights = matrix ? new Map(HeatMap.ties(matrix, position).map(([other, value]) => [other, value / top])) : null;
    lane.tokens.tint(weights, position);
    if (this.heat.matrix && lane === this.watched) this.heat.list(position, matrix);
  }
}

/** Shows what was asked; lists, squares and programs in letters of one width. */
export function prompted(text) {
  at("prompt-text").textContent = text.trim();
  at("prompt-text").classList.toggle("lines", text.trim().includes("\n"));
}

/** A position by its token, or by the one it ends with, so that a matrix can be read. */
const nameIn = (lane) => (position) => {
  const text = lane.textAt(position) || lane.run.finalText(position);
  return text === null || text === undefined || text === "" ? `place ${position}` : quoted(text);
};

/** What the matrix at the end is there for. */
function lesson(lane) {
  const found = lane.run.lesson();
  if (!found) return "";
  const { matrix, tie, together } = found;
  const name = nameIn(lane);
  const wrote = `Step ${matrix.step} wrote ${counted(together, "token")}${together > 1 ? " together" : ""}`;
  if (tie.left === null) return `${wrote}.`;
  return `${wrote} and left ${name(tie.left)}, which is predicted to depend on ${name(tie.written)} (${short(tie.value)}).`;
}

// ── Day and night ───────────────────────────────────────────────────────────────────────────────────────────────

/** A frame or a file may have no storage. */
function stored(value) {
  try {
    if (value) localStorage.setItem("demask-theme", value);
    return localStorage.getItem("demask-theme");
  } catch {
    return null;
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  at("dark").media = theme === "dark" ? "all" : "not all";
}

/** Day or night, whatever the system asks for. */
export function themed(stage) {
  at("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    setTheme(next);
    stored(next);
    stage.heat.draw();
  });
  const theme = stored(null);
  if (theme) setTheme(theme);
}

/** Whether a replay may start by itself. */
export const mayMove = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;
