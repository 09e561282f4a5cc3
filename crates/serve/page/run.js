// One decoding: its header, its steps, and the canvas after any number of them. Also the trace file.

/** What a cell of the canvas is. */
export const Kind = { Given: "given", Masked: "masked", Committed: "committed", Ended: "ended" };

export class Run {
  /** @param header the trace's first line; `texts` are the texts of its tokens. */
  constructor(header) {
    this.header = header;
    this.steps = [];
    this.done = null;
    this.failed = null;
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
    const { tokens, texts, mask, eos } = this.header;
    const cells = tokens.map((token, position) => ({
      position,
      token,
      text: texts[position],
      kind: token === mask ? Kind.Masked : Kind.Given,
      end: eos?.includes(token) ?? false,
    }));
    const end = eos?.[0] ?? null;
    for (const [index, step] of this.steps.slice(0, count).entries()) {
      step.commits.forEach((commit, i) => {
        cells[commit.position] = {
          position: commit.position,
          token: commit.token,
          text: step.texts[i],
          kind: Kind.Committed,
          step: index + 1,
          confidence: commit.confidence,
          newest: index + 1 === count,
          end: eos?.includes(commit.token) ?? false,
        };
      });
      for (const position of step.filled ?? []) {
        cells[position] = { position, token: end, text: "", kind: Kind.Ended, step: index + 1, newest: false, end: true };
      }
      for (const position of step.remasked ?? []) {
        cells[position] = { position, token: mask, text: texts[position], kind: Kind.Masked, again: index + 1 };
      }
    }
    return cells;
  }

  /** Steps, tokens and seconds after `count` steps. */
  cost(count) {
    const steps = this.steps.slice(0, count);
    const sum = (of) => steps.reduce((total, step) => total + of(step), 0);
    return {
      steps: steps.length,
      forwards: sum((step) => step.forwards),
      tokens: sum((step) => step.commits.length - (step.remasked?.length ?? 0)),
      assistantRows: sum((step) => step.assistant_rows ?? 0),
      innerCalls: sum((step) => step.inner_calls ?? 0),
      seconds: sum((step) => step.seconds.forward + step.seconds.marginals + step.seconds.select + (step.seconds.extra ?? 0)),
    };
  }

  /** The matrix that step `count` chose with (the first one before any step), if it was recorded. */
  matrix(count) {
    const index = Math.max(count, 1) - 1;
    const step = this.steps[index];
    return step?.dependency ? { ...step.dependency, step: index + 1, chosen: step.commits.map((c) => c.position) } : null;
  }

  /** The last matrix up to step `count` in which a position was still masked. */
  matrixOf(position, count) {
    for (let at = Math.max(count, 1); at >= 1; at--) {
      const matrix = this.matrix(at);
      if (matrix?.positions.includes(position)) return matrix;
    }
    return null;
  }

  /** The trace file: the header and a step a line. */
  toTrace() {
    return [this.header, ...this.steps].map((line) => JSON.stringify(line)).join("\n") + "\n";
  }

  /** Reads a trace file; `texts` of tokens may be missing then, and `fetchTexts` finds them. */
  static async fromTrace(content, fetchTexts) {
    const lines = content.split("\n").filter((line) => line.trim());
    let parsed;
    try {
      parsed = lines.map((line) => JSON.parse(line));
    } catch {
      throw new Error("this file is not a trace: not every line is JSON");
    }
    const [header, ...steps] = parsed;
    if (header?.demask_trace !== 1) throw new Error("this file is not a trace: its first line is no header");
    const whole = (step) => Array.isArray(step?.commits) && step.seconds;
    if (!steps.every(whole)) throw new Error("this file is not a trace: a line is no step");
    header.texts ??= await fetchTexts(header.tokens);
    for (const step of steps) step.texts ??= await fetchTexts(step.commits.map((commit) => commit.token));
    const run = new Run(header);
    run.steps = steps;
    run.done = { text: null };
    return run;
  }
}
