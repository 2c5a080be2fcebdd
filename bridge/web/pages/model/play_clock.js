// The one clock of a page: the timestep that all cameras and plots show.

export class PlayClock {
  /**
   * @param {number} length timesteps
   * @param {number} rate timesteps per second
   * @param {{ now?: () => number, schedule?: (act: () => void) => void }} [system]
   */
  constructor(length, rate, system = {}) {
    this.length = length;
    this.rate = rate;
    this.step = 0;
    this.speed = 1;
    this.playing = false;
    this.now = system.now || (() => performance.now());
    this.schedule = system.schedule || ((act) => requestAnimationFrame(act));
    /** @type {Set<(step: number, playing: boolean) => void>} */
    this.watchers = new Set();
    this.begun = { at: 0, step: 0 };
  }

  /** @param {(step: number, playing: boolean) => void} act */
  watch(act) {
    this.watchers.add(act);
    act(this.step, this.playing);
  }

  tell() {
    for (const act of this.watchers) act(this.step, this.playing);
  }

  /** @param {number} step */
  seek(step) {
    this.step = Math.max(0, Math.min(this.length - 1, step));
    this.begun = { at: this.now(), step: this.step };
    this.tell();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.step >= this.length - 1) this.step = 0;
    this.playing = true;
    this.begun = { at: this.now(), step: this.step };
    this.tell();
    this.schedule(() => this.tick());
  }

  pause() {
    this.playing = false;
    this.step = Math.floor(this.step);
    this.tell();
  }

  /** @param {number} factor */
  setSpeed(factor) {
    this.speed = Math.max(1 / 16, Math.min(16, factor));
    this.begun = { at: this.now(), step: this.step };
    this.tell();
  }

  tick() {
    if (!this.playing) return;
    const step = this.begun.step + ((this.now() - this.begun.at) / 1000) * this.rate * this.speed;
    this.step = Math.min(this.length - 1, step);
    if (step >= this.length - 1) this.playing = false;
    this.tell();
    if (this.playing) this.schedule(() => this.tick());
  }
}
