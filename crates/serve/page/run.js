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
    const changes = this.steps.flatMap((step) => step.changes).filter((change) => change.position === position);
    return changes.at(-1)?.text ?? null;
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
