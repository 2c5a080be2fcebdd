// Cameras of an episode: pictures of the lanes at the clock's timestep, fetched a little ahead.
import { get, pictureUrl } from "../base/api.js";
import { fill, h } from "../base/dom.js";
import { cameraName } from "../model/example.js";

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
    const name = cameraName(video.lane);
    this.player = h("video", { muted: true, playsinline: true, preload: "auto", "aria-label": `Camera ${name}` });
    this.player.muted = true;
    this.wanted = 0; // time of the video, while it does not play
    this.player.addEventListener("seeked", () => { if (this.player.paused) this.seek(); });
    this.player.addEventListener("error", onFailure);
    const named = video.lane.split("/").map(encodeURIComponent).join("/");
    this.player.src = `/api/episodes/${encodeURIComponent(uid)}/videos/${named}`;
    this.element = framed(this.player, name);
    this.player.addEventListener("loadedmetadata", () => this.element.style.setProperty("--natural", `${this.player.videoWidth}px`));
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
    this.wanted = time;
    this.seek();
  }

  /** Go to the picture that is wanted by now; where the browser is still at another one, once it has that. */
  seek() {
    const { player } = this;
    if (!player.seeking && Math.abs(player.currentTime - this.wanted) > 0.4 / this.rate) player.currentTime = this.wanted;
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
    const name = options.title || cameraName(lane);
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
      this.element.style.setProperty("--natural", `${found.width}px`);
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

/** All cameras and other pictures of an episode, side by side; each camera finds frames like its own. */
export class CameraRow {
  /**
   * @param {string} uid
   * @param {import("../base/api.js").Json} about
   * @param {(lane: string) => void} onFind
   */
  constructor(uid, about, onFind) {
    this.uid = uid;
    this.about = about;
    const kinds = Object.entries(about.lane_kinds);
    const [cameras, others] = ["camera", "picture"].map((one) => kinds.filter(([, kind]) => kind === one).map(([lane]) => lane));
    this.lanes = [...cameras, ...others];
    /** @type {(Camera | VideoCamera)[]} */
    this.cameras = [];
    this.finds = cameras.map((lane) => h("button", { onclick: () => onFind(lane) }));
    this.element = h("div", { class: "cameras" });
    this.showSpan(null);
  }

  /** Show them at the clock's timestep, videos by the browser where it can. @param {import("../model/play_clock.js").PlayClock} clock */
  async load(clock) {
    if (!this.lanes.length) return;
    const { uid, about } = this;
    const videos = await get(`/api/episodes/${encodeURIComponent(uid)}/videos`).then((found) => found.items, () => []);
    this.cameras = this.lanes.map((lane, index) => {
      const video = videos.find((/** @type {{ lane: string }} */ one) => one.lane === lane);
      if (!video) return new Camera(uid, lane, about.length);
      return new VideoCamera(uid, video, about.rate || 1, () => {
        this.cameras[index].element.replaceWith(this.place(new Camera(uid, lane, about.length), index));
        this.show(clock.step, false);
      });
    });
    fill(this.element, this.cameras.map((camera, index) => this.place(camera, index)));
    this.show(clock.step, false);
  }

  /** @param {Camera | VideoCamera} camera @param {number} index */
  place(camera, index) {
    this.cameras[index] = camera;
    if (index < this.finds.length) camera.element.querySelector("figcaption")?.append(" ", this.finds[index]);
    return camera.element;
  }

  /** @param {number} step @param {boolean} playing @param {number} [speed] */
  show(step, playing, speed = 1) {
    for (const camera of this.cameras) camera.show(step, playing, speed);
  }

  /** Say which frames are searched: those of the span, or else the one that is shown. @param {[number, number] | null} span */
  showSpan(span) {
    for (const button of this.finds) fill(button, "Find frames like ", span ? span.join(":") : "this");
  }
}
