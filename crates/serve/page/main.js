// Wires the form, the lanes, the replay and the heat map.

import { get, post, Refusal, setKey, stream } from "./api.js";
import { Ask } from "./ask.js";
import { Decoder } from "./decoder.js";
import { at, counted, quoted, seconds } from "./dom.js";
import { HeatMap } from "./heat.js";
import { Lane } from "./lane.js";
import { Player } from "./replay.js";
import { Run } from "./run.js";

const app = { ask: null, decoders: [], running: null, watched: null };

const player = new Player(
  (count) => {
    for (const lane of lanes()) lane.show(count);
    drawHeat();
  },
  () => settled(),
);
const events = {
  point: (lane, position) => pointAt(lane, position),
  seek: (count) => player.seek(count),
  fill: (lane, tokens) => fill(lane, tokens),
  say: (text) => say(text),
};
const both = [new Lane("a", events), new Lane("b", events)];
const heat = new HeatMap((position) => pointAt(app.watched, position, true));

const lanes = () => both.filter((lane) => lane.root.isConnected);
const say = (text) => (at("status").textContent = text);
const complain = (text) => (at("error").textContent = text);

// ── Starting ────────────────────────────────────────────────────────────────────────────────────────────────────

async function connect() {
  try {
    const { data } = await get("v1/models");
    const [model] = data;
    const strategies = (await get("v1/strategies")).data;
    at("key-row").hidden = true;
    at("model").textContent = model.id;
    const best = strategies.find((s) => s.id === "demask" && s.available) ? "demask" : "entropy:k=2";
    const build = (id, title, spelled) => new Decoder(at(id), title, strategies, spelled, changed);
    app.decoders = [build("decoder-a", "Decoder", best), build("decoder-b", "Against", "entropy")];
    app.ask = new Ask(model);
    app.model = model;
    await app.ask.offerTasks();
    complain("");
  } catch (error) {
    if (error.status === 401) {
      at("key-row").hidden = false;
      at("model").textContent = "locked";
    }
    complain(error.message);
  }
}

function changed(bySlider) {
  if (bySlider && at("again").checked && app.last && !app.running) start();
}

// ── Running ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Runs what the form asks for. */
async function start() {
  if (!app.ask) return connect();
  if (!at("ask").reportValidity()) return;
  const { ask } = app;
  if (!ask.text.trim()) return complain("There is no text yet.");
  if (ask.mode === "gaps" && !ask.text.includes("[MASK")) return showTokens();
  const seed = Number(at("seed").value);
  const problem = ask.mode === "prompt" ? ask.problem : null;
  const spellings = app.decoders.slice(0, at("race").checked ? 2 : 1).map((decoder) => decoder.spelling);
  const asked = { mode: ask.mode, text: ask.text, problem };
  await race(spellings.map((spelling) => [spelling, ask.body(spelling, seed)]), asked);
}

/** Streams several decodings side by side. */
async function race(entries, asked) {
  app.running?.abort();
  const control = new AbortController();
  app.running = control;
  app.last = asked;
  complain("");
  at("outcome").textContent = "";
  at("remark").textContent = "";
  busy(true);
  at("lanes").replaceChildren(...both.slice(0, entries.length).map((lane) => lane.root));
  lanes().forEach((lane, i) => lane.start(null, entries[i][0]));
  app.watched = lanes()[0];
  player.begin();
  say("Denoising.");
  if (matchMedia("(max-width: 860px)").matches) at("stage").scrollIntoView({ block: "start" });
  const outcomes = await Promise.all(lanes().map((lane, i) => follow(lane, entries[i][1], control)));
  if (app.running !== control) return;
  app.running = null;
  busy(false);
  const failure = outcomes.find((error) => error);
  if (failure && failure.name !== "AbortError") {
    complain(failure.message);
    if (failure.status === 401) at("key-row").hidden = false;
  }
  player.end();
}

/** Feeds one stream into a lane; returns what went wrong, if anything. */
async function follow(lane, body, control) {
  try {
    for await (const { event, data } of stream("v1/denoise", body, control.signal)) {
      if (app.running !== control) return null;
      if (event === "start") {
        lane.start(new Run(data), data.strategy);
        at("remark").textContent = data.remark ? `Note: ${data.remark}` : "";
        lane.show(player.count);
      } else if (event === "step") {
        lane.run.steps.push(data);
        player.grow(lane.run.steps.length);
      } else if (event === "done") lane.run.done = data;
      else if (event === "error") throw new Refusal(500, data.error.message);
    }
    if (lane.run && !lane.run.done) throw new Refusal(0, "the server went away in the middle of the answer");
    return null;
  } catch (error) {
    if (lane.run) lane.run.done ??= { text: null };
    return error;
  }
}

/** The live run has been shown to its end. */
async function settled() {
  const finished = lanes().filter((lane) => lane.run?.done?.text !== null && lane.run?.done);
  lanes().forEach((lane) => lane.show(player.count));
  if (!finished.length) return;
  const results = finished.map((lane) => {
    const { steps, seconds: spent } = lane.run.cost(lane.run.steps.length);
    return `${lane.run.strategy} finished in ${counted(steps, "step")}, ${seconds(spent)}: ${lane.run.done.text}`;
  });
  say(results.join(". "));
  if (finished.length === 2) compare(...finished);
  const { last } = app;
  if (last.mode === "chat" && !last.told) {
    last.told = true;
    app.ask.said(last.text, finished[0].run.done.text);
  }
  for (const lane of finished) {
    try {
      lane.setVerdict(await Ask.judge(last.problem, lane.run.done.text));
    } catch (error) {
      complain(error.message);
    }
  }
}

/** One line on who needed fewer steps. */
function compare(a, b) {
  const [first, second] = [a, b].sort((x, y) => x.run.steps.length - y.run.steps.length);
  const [few, many] = [first.run.steps.length, second.run.steps.length];
  const factor = (many / few).toFixed(1);
  const same = a.run.done.text === b.run.done.text ? "the same text" : "different texts";
  const lead = few === many ? `Both took ${counted(few, "step")}` : `${first.run.strategy} took ${factor}× fewer steps than ${second.run.strategy}`;
  at("outcome").textContent = `${lead} (${few} and ${many}), with ${same}.`;
}

function busy(running) {
  at("stop").disabled = !running;
  at("stage").setAttribute("aria-busy", String(running));
}

// ── Infilling ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Shows a text as tokens that can be masked. */
async function showTokens() {
  try {
    const { tokens, texts } = await post("v1/tokenize", { text: app.ask.text });
    const { mask_token_id: mask, eos_token_ids: eos } = app.model;
    const header = { demask_trace: 1, strategy: app.decoders[0].spelling, tokens, texts, response: [0, tokens.length], mask, eos, seed: 0 };
    const run = new Run(header);
    run.done = { text: null };
    at("lanes").replaceChildren(both[0].root);
    both[0].start(run, header.strategy);
    app.watched = both[0];
    app.last = null;
    complain("");
    player.load(0);
    both[0].setMasking(new Set());
  } catch (error) {
    complain(error.message);
  }
}

/** Decides the masked tokens of a lane again. */
async function fill(lane, tokens) {
  const spelling = app.decoders[both.indexOf(lane)].spelling;
  const { temperature, seed } = app.ask.body(spelling, Number(at("seed").value));
  const body = { tokens, strategy: spelling, temperature, seed, include_dependency: true };
  at("lanes").replaceChildren(lane.root);
  await race([[spelling, body]], { mode: "gaps", text: "", problem: null });
}

// ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** A position by its token, or by the one it ends with, so that a matrix can be read. */
const nameIn = (lane) => (position) => {
  const text = lane.textAt(position) ?? lane.run.finalText(position);
  return text === null ? `the mask at ${position}` : quoted(text);
};

function drawHeat() {
  const lane = app.watched?.run && lanes().includes(app.watched) ? app.watched : lanes()[0];
  const shown = lane?.run?.matrix(lane.count) ?? null;
  const any = lanes().some((other) => other.run?.steps.some((step) => step.dependency));
  if (shown || !any) heat.show(shown, lane ? nameIn(lane) : null);
}

/** Links a token, its dependencies and the heat map. */
function pointAt(lane, position, fromHeat = false) {
  if (!lane?.run) return;
  if (position !== null && app.watched !== lane && lane.run.matrix(lane.count)) {
    app.watched = lane;
    drawHeat();
  }
  const matrix = position === null ? null : lane.run.matrixOf(position, lane.count);
  // A token decided earlier is shown in the matrix it was chosen from.
  if (!fromHeat && lane === app.watched) {
    if (matrix) heat.show(matrix, nameIn(lane));
    else drawHeat();
  }
  const top = matrix ? Math.max(...matrix.values, 1e-9) : 1;
  const weights = matrix ? new Map(HeatMap.ties(matrix, position).map(([other, value]) => [other, value / top])) : null;
  lane.tokens.tint(weights, position);
  if (heat.matrix && lane === app.watched) heat.list(position, matrix);
}

// ── Controls ────────────────────────────────────────────────────────────────────────────────────────────────────

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
at("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    start();
  }
});
at("stop").addEventListener("click", () => app.running?.abort());
at("race").addEventListener("change", () => (at("decoder-b").hidden = !at("race").checked));
at("shade").addEventListener("change", () => player.seek(player.count));
at("show-prompt").addEventListener("change", () => player.seek(player.count));
at("key").addEventListener("change", () => {
  setKey(at("key").value);
  connect();
});
at("open").addEventListener("change", async () => {
  const [file] = at("open").files;
  at("open").value = "";
  if (!file) return;
  try {
    const run = await Run.fromTrace(await file.text(), (trace) => post("v1/replay", { trace }));
    at("lanes").replaceChildren(both[0].root);
    both[0].start(run, run.strategy);
    app.watched = both[0];
    app.last = null;
    player.load(run.steps.length);
    complain("");
    say(`Opened a trace of ${counted(run.steps.length, "step")}.`);
  } catch (error) {
    complain(error.message);
  }
});
/** Day or night, whatever the system asks for. */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  at("dark").media = theme === "dark" ? "all" : "not all";
}
at("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  setTheme(next);
  localStorage.setItem("demask-theme", next);
  heat.draw();
});
const theme = localStorage.getItem("demask-theme");
if (theme) setTheme(theme);

connect();
