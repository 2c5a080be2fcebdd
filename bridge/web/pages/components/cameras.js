// Cameras of an episode: pictures of the lanes at the clock's timestep, fetched a little ahead.
import { pictureUrl } from "../base/api.js";
import { h } from "../base/dom.js";

const AHEAD = 8;
const MOST = 160;
const AT_ONCE = 6;
const TRIES = 3; // of a camera whose pictures are missing

/**
 * A camera with its name; a click, or its button, enlarges it.
 * @param {HTMLElement} picture
 * @param {string} name
 * @param {HTMLElement} [problem]
 */
function framed(picture, name, problem) {
  const turn = () => {
    const large = element.classList.toggle("large");
    button.setAttribute("aria-pressed", String(large));
    if (large) element.scrollIntoView({ block: "nearest" });
  };
  const button = h("button", { class: "quiet", "aria-pressed": "false", "aria-label": `Enlarge camera ${name}`, onclick: turn }, "⤢");
  picture.addEventListener("click", turn);
  const element = h("figure", { class: "camera" }, picture, h("figcaption", {}, name, " ", button), problem);
  return element;
}

/** A lane of encoded video, which the browser decodes. */
export class VideoCamera {
  /**
   * @param {string} uid
   * @param {{ lane: string, start: number, rate: number | null }} video
   * @param {number} rate timesteps per second of the clock
   * @param {() => void} onFailure the browser cannot play it
   */
  constructor(uid, video, rate, onFailure) {
    this.video = video;
    this.rate = video.rate || rate;
    this.clockRate = rate;
    const name = video.lane.split("/").slice(1).join("/") || video.lane;
    this.player = h("video", { muted: true, playsinline: true, preload: "auto", "aria-label": `Camera ${name}` });
    this.player.muted = true;
    this.player.addEventListener("error", onFailure);
    const named = video.lane.split("/").map(encodeURIComponent).join("/");
    this.player.src = `/api/episodes/${encodeURIComponent(uid)}/videos/${named}`;
    this.element = framed(this.player, name);
  }

  /** @param {number} step @param {boolean} playing @param {number} [speed] */
  show(step, playing, speed = 1) {
    const { player } = this;
    const factor = (speed * this.clockRate) / this.rate;
    const smooth = playing && factor >= 0.1 && factor <= 8;
    const time = this.video.start + ((smooth ? step : Math.floor(step)) + 0.5) / this.rate;
    if (smooth) {
      player.playbackRate = factor;
      if (player.paused) void player.play().catch(() => {});
      if (Math.abs(player.currentTime - time) > Math.max(0.15, 2 / this.rate)) player.currentTime = time;
      return;
    }
    if (!player.paused) player.pause();
    if (!player.seeking && Math.abs(player.currentTime - time) > 0.4 / this.rate) player.currentTime = time;
    else if (player.seeking) player.addEventListener("seeked", () => { if (player.paused) player.currentTime = time; }, { once: true });
  }
}

export class Camera {
  /**
   * @param {string} uid
   * @param {string} lane
   * @param {number} length
   * @param {{ width?: number, title?: string }} [options]
   */
  constructor(uid, lane, length, options = {}) {
    this.uid = uid;
    this.lane = lane;
    this.length = length;
    this.width = options.width;
    /** @type {Map<number, ImageBitmap | null>} null: under way */
    this.known = new Map();
    this.under = 0;
    this.wanted = 0;
    this.shown = -1;
    this.frames = 0;
    this.failed = 0;
    const name = options.title || lane.split("/").slice(1).join("/") || lane;
    this.canvas = h("canvas", { role: "img", "aria-label": `Camera ${name}` });
    this.problem = h("p", { class: "problem" });
    this.element = framed(this.canvas, name, this.problem);
  }

  /** @param {number} step @param {boolean} playing */
  show(step, playing) {
    this.wanted = Math.max(0, Math.min(this.length - 1, Math.floor(step)));
    this.draw();
    this.fetch(this.wanted);
    if (playing) for (let next = 1; next <= AHEAD; next += 1) this.fetch(this.wanted + next);
  }

  draw() {
    const found = this.known.get(this.wanted) ?? null;
    if (!found || this.shown === this.wanted) return;
    if (this.canvas.width !== found.width) {
      this.canvas.width = found.width;
      this.canvas.height = found.height;
    }
    this.canvas.getContext("2d")?.drawImage(found, 0, 0);
    this.shown = this.wanted;
    this.frames += 1;
    this.canvas.dataset.step = String(this.wanted);
  }

  /** @param {number} step */
  async fetch(step) {
    if (step >= this.length || this.known.has(step) || (this.under >= AT_ONCE && step !== this.wanted)) return;
    if (this.shown < 0 && this.failed >= TRIES) return;
    this.known.set(step, null);
    this.under += 1;
    try {
      const answer = await fetch(pictureUrl(this.uid, this.lane, step, this.width));
      if (!answer.ok) throw new Error((await answer.json()).message);
      this.known.set(step, await createImageBitmap(await answer.blob()));
      this.problem.textContent = "";
      this.canvas.hidden = false;
    } catch (error) {
      this.known.delete(step);
      this.problem.textContent = error instanceof Error ? error.message : String(error);
      this.canvas.hidden = this.shown < 0;
      this.failed += 1;
    } finally {
      this.under -= 1;
    }
    this.forget();
    this.draw();
  }

  forget() {
    for (const [step, picture] of this.known) {
      if (this.known.size <= MOST) break;
      if (picture === null || Math.abs(step - this.wanted) < AHEAD) continue;
      picture.close();
      this.known.delete(step);
    }
  }
}
