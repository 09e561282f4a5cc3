// Which step is shown: follows a run as it comes, at the chosen pace, and goes anywhere afterwards.

import { at } from "./dom.js";

export class Player {
  /** `show(count)` draws the canvas after so many steps; `settled()` is told when a live run has been shown to its end. */
  constructor(show, settled) {
    this.show = show;
    this.settled = settled;
    this.count = 0;
    this.most = 0;
    this.live = false;
    this.timer = null;
    this.scrub = at("scrub");
    this.button = at("play");
    this.scrub.addEventListener("input", () => {
      const count = Number(this.scrub.value);
      this.#stop();
      this.#go(count);
    });
    this.button.addEventListener("click", () => (this.timer ? this.#stop() : this.#play()));
  }

  get pace() {
    return Number(at("pace").value);
  }

  /** A new run begins. */
  begin() {
    this.#stop();
    this.live = true;
    this.open = true;
    this.most = 0;
    this.#go(0);
  }

  /** More steps are there. */
  grow(most) {
    this.most = Math.max(this.most, most);
    this.#label();
    if (!this.live) return;
    if (this.pace === 0) this.#go(this.most);
    else this.#play();
  }

  /** No more steps will come. */
  end() {
    this.open = false;
    if (this.live && this.count >= this.most) this.#settle();
    else this.#play();
  }

  /** A whole run, shown at its end, or from its beginning on to its end. */
  load(steps, play = false) {
    this.#stop();
    this.live = this.open = false;
    this.most = steps;
    this.#go(steps);
    if (play) this.#play();
  }

  /** Goes to a step by hand. */
  seek(count) {
    this.#stop();
    this.#go(Math.min(count, this.most));
  }

  #play() {
    if (this.timer) return;
    if (!this.live && this.count >= this.most) this.count = 0;
    const next = () => {
      this.timer = null;
      if (this.count < this.most) this.#go(this.count + 1);
      if (this.count < this.most) this.timer = setTimeout(next, Math.max(this.pace, 30));
      else if (this.live && !this.open) this.#settle();
      this.#label();
    };
    this.timer = setTimeout(next, this.live ? Math.max(this.pace, 1) : 0);
    this.#label();
  }

  #stop() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.live && !this.open) this.#settle();
    this.live = false;
    this.#label();
  }

  #settle() {
    this.live = false;
    this.settled();
  }

  #go(count) {
    this.count = count;
    this.#label();
    this.show(count);
  }

  #label() {
    this.scrub.max = this.most;
    this.scrub.value = this.count;
    this.scrub.disabled = this.button.disabled = this.most === 0;
    this.scrub.setAttribute("aria-valuetext", `step ${this.count} of ${this.most}`);
    at("where").textContent = this.most ? `step ${this.count} / ${this.most}` : "no run yet";
    const playing = this.timer !== null;
    this.button.setAttribute("aria-label", playing ? "Pause" : "Play");
    this.button.firstElementChild.textContent = playing ? "❚❚" : "▶";
  }
}
