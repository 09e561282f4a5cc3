// Wires the form and the server to the stage.

import { get, post, Refusal, setKey, stream } from "./api.js";
import { Ask, verdictText } from "./ask.js";
import { Decoder } from "./decoder.js";
import { at, counted, seconds } from "./dom.js";
import { Run } from "./run.js";
import { mayMove, prompted, Stage, themed } from "./stage.js";

const app = { ask: null, decoders: [], running: null, last: null, held: false };
/** Inside another page only the stage is shown. */
const embedded = location.pathname.endsWith("/embed");

const say = (text) => (at("status").textContent = text);
const complain = (text) => (at("error").textContent = at("stage-error").textContent = text);
const stage = new Stage({ settled: () => settled(), fill: (lane, tokens) => fill(lane, tokens), say });

// ── Starting ────────────────────────────────────────────────────────────────────────────────────────────────────

async function connect() {
  try {
    const { data } = await get("v1/models");
    const [model] = data;
    const strategies = (await get("v1/strategies")).data;
    at("key-row").hidden = true;
    at("model").textContent = model.id;
    const build = (id, title, spelled) => new Decoder(at(id), title, strategies, spelled, changed);
    app.decoders = [build("decoder-a", "Decoder", model.strategy), build("decoder-b", "Against", "entropy")];
    app.ask = new Ask(model);
    app.model = model;
    await app.ask.offerTasks();
    complain("");
    if (!(await fromAddress())) await open();
  } catch (error) {
    if (error.status === 401) {
      at("key-row").hidden = false;
      at("model").textContent = "locked";
    }
    complain(error.message);
  }
}

/** The race that this server has ready, if its model has examples. */
async function open() {
  at("caption").textContent = "Choosing an example…";
  const race = await get("v1/opening");
  if (!race.runs.length) {
    caption();
    return app.ask.pose();
  }
  const problem = { task: race.task, index: race.index, prompt: race.prompt, answer: race.answer };
  app.ask.take(problem);
  app.last = { mode: "prompt", text: race.prompt, problem };
  prompted(race.prompt);
  const runs = race.runs.map((run) => Run.whole(run));
  stage.load(runs, mayMove());
  caption();
  race.runs.forEach((run, i) => stage.lanes[i].setVerdict(verdictText(run.verdict, problem)));
  share(runs.map((run) => run.strategy));
}

/** One sentence on what is seen and why it matters. */
function caption() {
  const why = "A pass takes the same time however many masks it writes, so fewer passes are a sooner answer.";
  at("caption").textContent = stage.lanes.length === 2
    ? `The same model twice: in each pass over the text, ${named(0)} and ${named(1)} choose differently which masks to write. ${why}`
    : `The model fills masks with text, several in one pass. ${why}`;
}

const named = (i) => stage.lanes[i].spelled.split(":")[0];


function changed(bySlider) {
  if (bySlider && at("again").checked && app.last && !app.running) start();
}

// ── The address ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Takes a run over from the address and repeats it; false where the address names none. */
async function fromAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (!asked.get("text")) return false;
  await app.ask.read(asked);
  at("race").checked = asked.has("b");
  at("decoder-b").hidden = !at("race").checked;
  ["a", "b"].forEach((key, i) => asked.get(key) && app.decoders[i].spell(asked.get(key)));
  await start();
  return true;
}

/** Puts the run into the address, and what to copy beside the replay. */
function share(spellings) {
  const asked = app.ask.address(app.last);
  at("share").hidden = !asked;
  if (!asked) return history.replaceState(null, "", location.pathname);
  ["a", "b"].forEach((key, i) => spellings[i] && asked.set(key, spellings[i]));
  history.replaceState(null, "", `#${asked}`);
  const site = new URL(".", location.href);
  at("share-link").value = `${site}#${asked}`;
  at("share-frame").value = `<iframe src="${site}embed#${String(asked).replaceAll('"', "%22")}" title="Text denoises" width="100%" height="640"></iframe>`;
  at("whole-page").href = `${site}#${asked}`;
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
  const spellings = app.decoders.slice(0, at("race").checked ? 2 : 1).map((decoder) => decoder.spelling);
  const asked = { mode: ask.mode, text: ask.text, problem: ask.problem };
  await race(spellings.map((spelling) => [spelling, ask.body(spelling, seed)]), asked);
}

/** Streams several decodings side by side. */
async function race(entries, asked) {
  app.running?.abort();
  const control = new AbortController();
  app.running = control;
  app.last = asked;
  complain("");
  busy(true);
  stage.clear(entries.map(([spelling]) => spelling));
  caption();
  prompted(asked.text);
  share(entries.map(([spelling]) => spelling));
  stage.player.begin();
  say("Denoising.");
  app.held = true;
  hold(at("lanes"));
  const outcomes = await Promise.all(stage.lanes.map((lane, i) => follow(lane, entries[i], control)));
  if (app.running !== control) return;
  app.running = null;
  busy(false);
  const failure = outcomes.find((error) => error);
  if (failure && failure.name !== "AbortError") {
    complain(failure.message);
    if (failure.status === 401) at("key-row").hidden = false;
  }
  stage.player.end();
}

/** On a small screen the view stays at the race while it runs, whatever grows above it, until somebody moves it. */
function hold(part) {
  if (app.held && matchMedia("(max-width: 860px)").matches) part.scrollIntoView({ block: "start" });
}

/** Feeds one stream into a lane; returns what went wrong, if anything. */
async function follow(lane, [spelling, body], control) {
  try {
    for await (const { event, data } of stream("v1/denoise", body, control.signal)) {
      if (app.running !== control) return null;
      if (event === "start") {
        stage.begin(lane, new Run(data), spelling);
        at("remark").textContent = data.remarks?.length ? `Note: ${data.remarks.join(". ")}` : "";
        lane.show(stage.player.count, stage.player.most);
      } else if (event === "step") {
        lane.run.steps.push(data);
        stage.player.grow(lane.run.steps.length);
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
  const finished = stage.lanes.filter((lane) => lane.run?.done?.text !== null && lane.run?.done);
  stage.player.seek(stage.player.count);
  if (!finished.length) return;
  const results = finished.map((lane) => {
    const { steps, seconds: spent } = lane.run.cost(lane.run.steps.length);
    return `${lane.run.strategy} finished in ${counted(steps, "step")}, ${seconds(spent)}: ${lane.run.done.text}`;
  });
  say(results.join(". "));
  stage.compare();
  // The line above the race that says who won.
  hold(at("outcome").textContent ? at("outcome") : at("lanes"));
  app.held = false;
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
    app.last = null;
    complain("");
    prompted("");
    stage.load([Run.whole({ start: header, steps: [] })], false);
    stage.both[0].setMasking(new Set());
  } catch (error) {
    complain(error.message);
  }
}

/** Decides the masked tokens of a lane again. */
async function fill(lane, tokens) {
  const spelling = app.decoders[stage.both.indexOf(lane)].spelling;
  const { temperature, seed } = app.ask.body(spelling, Number(at("seed").value));
  const body = { tokens, strategy: spelling, temperature, seed, include_dependency: true };
  await race([[spelling, body]], { mode: "tokens", text: "", problem: null });
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
    app.last = null;
    stage.load([run], false);
    prompted(run.header.texts.slice(0, run.header.response[0]).join(""));
    caption();
    complain("");
    say(`Opened a trace of ${counted(run.steps.length, "step")}.`);
  } catch (error) {
    complain(error.message);
  }
});
for (const field of ["share-link", "share-frame"]) at(field).addEventListener("focus", () => at(field).select());
for (const moved of ["touchmove", "wheel"]) addEventListener(moved, () => (app.held = false), { passive: true });
new ResizeObserver(() => hold(at("lanes"))).observe(at("stage"));
addEventListener("hashchange", () => fromAddress());
themed(stage);
document.body.classList.toggle("embed", embedded);
at("whole-page").hidden = !embedded;

connect();
