// The dependency matrix as a heat map, linked with the tokens.

import { at, el, quoted, short } from "./dom.js";

const LARGEST = 440;
const LARGEST_CELL = 30;

export class HeatMap {
  /** `point(position | null)` is told which token the pointer or the keys are on. */
  constructor(point) {
    this.point = point;
    this.panel = at("heat");
    this.canvas = at("matrix");
    this.matrix = null;
    this.cursor = null;
    this.canvas.addEventListener("pointermove", (e) => this.#hover(e));
    this.canvas.addEventListener("pointerleave", () => this.#choose(null));
    this.canvas.addEventListener("keydown", (e) => this.#key(e));
    this.canvas.addEventListener("blur", () => this.#choose(null));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.panel);
  }

  /** Shows a matrix; `name(position)` is the text of a token at the moment. */
  show(matrix, name) {
    this.panel.hidden = !matrix;
    const same = this.matrix?.values === matrix?.values;
    this.matrix = matrix;
    this.name = name;
    if (!matrix) return;
    if (!same) this.cursor = this.highlight = null;
    this.top = matrix.values.reduce((top, value) => Math.max(top, value), 0);
    at("heat-title").textContent = `Dependency before step ${matrix.step}`;
    at("scale-max").textContent = short(this.top);
    const size = matrix.positions.length;
    const label = `Dependency matrix of ${size} masked tokens before step ${matrix.step}; the largest value is ${short(this.top)}`;
    this.canvas.setAttribute("aria-label", label);
    this.draw();
    if (this.cursor === null) this.#say(null);
  }

  /** D of a position on the others, largest first: [position, value]. */
  static ties(matrix, position) {
    const size = matrix.positions.length;
    const row = matrix.positions.indexOf(position);
    if (row < 0) return [];
    const pairs = matrix.positions.map((other, j) => [other, matrix.values[row * size + j]]);
    return pairs.filter(([other]) => other !== position).sort((a, b) => b[1] - a[1]);
  }

  /** Lists what a token depends on. */
  list(position, matrix) {
    const ties = matrix && position !== null ? HeatMap.ties(matrix, position).slice(0, 8) : [];
    const top = Math.max(this.top ?? 0, 1e-9);
    at("ties").replaceChildren(
      ...ties.map(([other, value]) => {
        const bar = el("i");
        bar.style.setProperty("--part", Math.min(value / top, 1).toFixed(3));
        return el("li", {}, el("span", {}, this.name(other)), bar, el("b", {}, short(value)));
      }),
    );
    if (ties.length) at("cell").textContent = `${this.name(position)} depends most on`;
    else if (position === null) this.#say(this.cursor);
    this.highlight = position;
    this.draw();
  }

  draw() {
    if (!this.matrix || this.panel.hidden) return;
    const { positions, values, chosen } = this.matrix;
    const size = positions.length;
    const room = Math.min(LARGEST, this.canvas.parentElement.clientWidth, size * LARGEST_CELL);
    const cell = room / size;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = this.canvas.height = Math.round(room * ratio);
    this.canvas.style.setProperty("--size", `${room}px`);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    const style = getComputedStyle(this.panel);
    const colors = ["--heat-0", "--heat-1", "--heat-2", "--heat-3"].map((name) => channels(style.getPropertyValue(name)));
    const top = Math.max(this.top, 1e-9);
    const gap = cell > 6 ? 1 : 0;
    values.forEach((value, i) => {
      const [row, column] = [Math.floor(i / size), i % size];
      context.fillStyle = mix(colors, row === column ? 0 : Math.sqrt(value / top));
      context.fillRect(column * cell, row * cell, Math.max(cell - gap, 0.5), Math.max(cell - gap, 0.5));
    });
    const mark = (row, column, height, width, color) => {
      context.strokeStyle = style.getPropertyValue(color);
      context.lineWidth = 1.5;
      context.strokeRect(column * cell + 0.5, row * cell + 0.5, width * cell - 1 - gap, height * cell - 1 - gap);
    };
    // Tokens chosen in this step stand on the diagonal.
    for (const position of chosen) {
      const i = positions.indexOf(position);
      context.fillStyle = style.getPropertyValue("--new");
      context.fillRect(i * cell, i * cell, Math.max(cell - gap, 1.5), Math.max(cell - gap, 1.5));
    }
    const row = positions.indexOf(this.highlight ?? -1);
    if (row >= 0) mark(row, 0, 1, size, "--ink");
    if (this.cursor) mark(this.cursor[0], this.cursor[1], 1, 1, "--ink");
  }

  #hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const size = this.matrix.positions.length;
    const index = (offset, length) => Math.min(size - 1, Math.max(0, Math.floor((offset / length) * size)));
    this.#choose([index(event.clientY - box.top, box.height), index(event.clientX - box.left, box.width)]);
  }

  #key(event) {
    const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    const move = moves[event.key];
    if (!move || !this.matrix) return;
    event.preventDefault();
    const size = this.matrix.positions.length;
    const from = this.cursor ?? [0, 0];
    this.#choose(from.map((value, i) => Math.min(size - 1, Math.max(0, value + move[i]))));
  }

  #choose(cursor) {
    if (!this.matrix || String(cursor) === String(this.cursor)) return;
    this.cursor = cursor;
    this.point(cursor ? this.matrix.positions[cursor[0]] : null);
    this.#say(cursor);
    this.draw();
  }

  #say(cursor) {
    if (!cursor) {
      const { positions, chosen } = this.matrix;
      const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
      at("cell").textContent = `${plural(positions.length, "mask")}; ${chosen.length === positions.length ? "all" : chosen.length} taken in this step (amber).`;
      return;
    }
    const { positions, values } = this.matrix;
    const value = values[cursor[0] * positions.length + cursor[1]];
    const [row, column] = cursor.map((i) => this.name(positions[i]));
    at("cell").textContent = `${row} depends on ${column}: ${short(value)}`;
  }
}

function channels(color) {
  const hex = color.trim().slice(1);
  return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function mix(colors, share) {
  const place = Math.min(share, 1) * (colors.length - 1);
  const low = Math.min(Math.floor(place), colors.length - 2);
  const part = place - low;
  return `rgb(${colors[low].map((c, i) => Math.round(c + (colors[low + 1][i] - c) * part)).join(" ")})`;
}
