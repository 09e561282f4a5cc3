// One decoding: its header, its steps, and the canvas after any number of them. Also the trace file.
// What a step changed is told by the server, which has the one reader of records; here it is only put in place.

/** What a cell of the canvas is. */
export const Kind = { Given: "given", Masked: "masked", Committed: "committed", Filled: "filled" };

export class Run {
  /** @param header the trace's first line; `texts` are the texts of its tokens. */
  constructor(header) {
    this.header = header;
    this.steps = [];
    this.done = null;
    this.failed = null;
    this.matrices = new Map();
  }

  get strategy() {
    return this.header.strategy;
  }

  /** Whether tokens behind the first mask were given: then all of the canvas is of interest. */
  get hasGaps() {
    const { tokens, mask, response } = this.header;
    return response[1] < tokens.length || tokens.slice(response[0], response[1]).some((token) => token !== mask);
  }

  /** The cells after `count` steps. */
  cells(count) {
    const { tokens, mask } = this.header;
    const cells = tokens.map((token, position) =>
      this.#cell(position, token === mask ? { kind: Kind.Masked } : { kind: Kind.Given, token, text: this.header.texts[position] }, count),
    );
    for (const step of this.steps.slice(0, count)) {
      for (const { position, ...place } of step.changes) cells[position] = this.#cell(position, place, count);
    }
    return cells;
  }

  /** A place as it is drawn; steps count from 1 here. */
  #cell(position, { kind, token, text, step, again, confidence }, count) {
    const { mask, eos } = this.header;
    const end = kind === Kind.Filled || (eos?.includes(token) ?? false);
    return {
      position,
      kind,
      token: token ?? (kind === Kind.Filled ? (eos?.[0] ?? null) : mask),
      text: text ?? "",
      confidence,
      step: step === undefined ? undefined : step + 1,
      again: again === undefined ? undefined : again + 1,
      newest: kind === Kind.Committed && step + 1 === count,
      end,
    };
  }

  /** The text that a position ends with, or null where nothing was written. */
  finalText(position) {
    for (let at = this.steps.length - 1; at >= 0; at--) {
      const change = this.steps[at].changes.findLast((change) => change.position === position);
      if (change) return this.header.eos?.includes(change.token) ? null : (change.text ?? null);
    }
    return null;
  }

  /** Steps, passes, what was computed besides them and its seconds (`extra`), tokens before the end of the text, and all
   *  seconds, after `count` steps. */
  cost(count) {
    const steps = this.steps.slice(0, count);
    const sum = (of) => steps.reduce((total, step) => total + of(step), 0);
    const cells = this.cells(count);
    const end = cells.findIndex((cell) => cell.end && cell.kind !== Kind.Given);
    const written = (end < 0 ? cells : cells.slice(0, end)).filter((cell) => cell.kind === Kind.Committed);
    return {
      steps: steps.length,
      forwards: sum((step) => step.forwards ?? 1),
      tokens: written.length,
      assistantRows: sum((step) => step.assistant_rows ?? 0),
      innerCalls: sum((step) => step.inner_calls ?? 0),
      extra: sum((step) => step.seconds.extra ?? 0),
      seconds: sum((step) => step.seconds.forward + step.seconds.marginals + step.seconds.select + (step.seconds.extra ?? 0)),
    };
  }

  /** The positions that ends of the text stand at, as far as the run is known. */
  get #ends() {
    if (this.ended?.steps !== this.steps.length) {
      const at = new Set();
      for (const { position, kind, token } of this.steps.flatMap((step) => step.changes)) {
        if (kind === Kind.Filled || this.header.eos?.includes(token)) at.add(position);
        else at.delete(position);
      }
      this.ended = { steps: this.steps.length, at };
    }
    return this.ended.at;
  }

  /** The matrix that a step chose with, if it was recorded and there is something to see in it: ends of the text are left
   *  out, and of the rest two at least have to depend on one another. Steps count from 1. */
  #matrixOf(number) {
    const step = this.steps[number - 1];
    if (!step?.dependency) return null;
    const { positions: all, values: every } = step.dependency;
    const kept = all.flatMap((position, i) => (this.#ends.has(position) ? [] : [i]));
    // The same rows are the same matrix, so that a cursor in it stays.
    const before = this.matrices.get(number);
    if (before && before.kept === kept.length) return before.matrix;
    const values = kept.flatMap((i) => kept.map((j) => every[i * all.length + j]));
    const positions = kept.map((i) => all[i]);
    const seen = values.some((value, i) => value > 0 && i % (kept.length + 1) !== 0);
    const chosen = step.commits.map((commit) => commit.position).filter((position) => positions.includes(position));
    const matrix = seen ? { positions, values, step: number, chosen } : null;
    this.matrices.set(number, { kept: kept.length, matrix });
    return matrix;
  }

  /** The tokens that a step wrote, and how many of them are ends of the text. */
  written(step) {
    const ends = step.commits.filter((commit) => this.header.eos?.includes(commit.token)).length;
    return { tokens: step.commits.length - ends, ends };
  }

  /** The matrix to look at after `count` steps: the one the last of them chose with, the first before any; where there is
   *  nothing to see in it, the one before; at the end the one that teaches most. */
  matrix(count) {
    if (count >= this.steps.length && this.done) return this.lesson()?.matrix ?? null;
    for (let number = Math.max(count, 1); number >= 1; number--) {
      const matrix = this.#matrixOf(number);
      if (matrix) return matrix;
    }
    return null;
  }

  /** The step that teaches most: many tokens written together, many left, and one of those strongly tied to one written.
   *  `tie`: the token left, the one written, and by how much the first depends on the second. */
  lesson() {
    let best = null;
    for (let number = 1; number <= this.steps.length; number++) {
      const matrix = this.#matrixOf(number);
      if (!matrix) continue;
      const { positions, values, chosen } = matrix;
      const taken = positions.map((position) => chosen.includes(position));
      const tie = { value: 0, left: null, written: null };
      positions.forEach((left, i) => positions.forEach((written, j) => {
        const value = values[i * positions.length + j];
        const telling = this.#tells(left) && this.#tells(written);
        if (!taken[i] && taken[j] && telling && value > tie.value) Object.assign(tie, { value, left, written });
      }));
      const together = Math.min(chosen.length, 8);
      const score = together * Math.min(positions.length - chosen.length, 8) * tie.value + 1e-6 * positions.length;
      if (!best || score > best.score) best = { score, matrix, tie, together: chosen.length };
    }
    return best;
  }

  /** Whether a position ends with something that can be read. */
  #tells(position) {
    return Boolean(this.finalText(position)?.trim());
  }

  /** The last matrix up to step `count` in which a position was still masked. */
  matrixOf(position, count) {
    for (let at = Math.max(count, 1); at >= 1; at--) {
      const matrix = this.#matrixOf(at);
      if (matrix?.positions.includes(position)) return matrix;
    }
    return null;
  }

  /** A whole run as the server or a trace tells it. */
  static whole({ start, steps, done }) {
    const run = new Run(start);
    run.steps = steps;
    run.done = done ?? { text: null };
    return run;
  }

  /** The trace file: the header and a step a line, without what follows from them. */
  toTrace() {
    const line = ({ changes, ...record }) => JSON.stringify(record);
    return [this.header, ...this.steps].map(line).join("\n") + "\n";
  }

  /** Reads a trace file; `replay` has the server tell it again, for which matrices are not needed. */
  static async fromTrace(content, replay) {
    const lines = content.split("\n").filter((line) => line.trim());
    let parsed;
    try {
      parsed = lines.map((line) => JSON.parse(line));
    } catch {
      throw new Error("this file is not a trace: not every line is JSON");
    }
    const told = await replay(parsed.map(({ dependency, ...record }) => JSON.stringify(record)).join("\n"));
    const [header, ...steps] = parsed;
    const run = new Run({ ...header, texts: told.texts, eos: header.eos ?? told.eos });
    run.steps = steps.map((step, index) => ({ ...step, changes: told.steps[index] }));
    run.done = { text: null };
    return run;
  }
}
