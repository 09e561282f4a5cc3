// A saved replay: the runs inside the file on the same stage as the page's, without a server.

import { at, counted } from "./dom.js";
import { Run } from "./run.js";
import { mayMove, prompted, Stage, themed } from "./stage.js";

const stage = new Stage({ settled: () => {}, fill: () => {}, say: (text) => (at("status").textContent = text) });
themed(stage);
const { runs } = JSON.parse(at("data").textContent);
document.body.classList.add("embed", "standalone");
at("model").textContent = counted(runs.length, "recorded decoding");
prompted(runs[0].prompt);
stage.load(runs.map((run) => Run.whole(run)), mayMove());
