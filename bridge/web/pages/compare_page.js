// Episodes side by side: each on its own clock, or all on the first one's, warped so that what is alike meets.
import { episodePath, get } from "./base/api.js";
import { channelColour } from "./base/colours.js";
import { context2d, fill, h, themed } from "./base/dom.js";
import { onKey } from "./base/keys.js";
import { readState, writeState } from "./base/url_state.js";
import { Camera } from "./components/cameras.js";
import { liveliest } from "./hits/hit_drawing.js";
import { makeShell } from "./components/shell.js";
import { spreadOf } from "./components/sparkline.js";
import { labelOf } from "./model/labels.js";
import { PlayClock } from "./model/play_clock.js";
import { nameOf } from "./model/queue_lines.js";

/** @typedef {import("./base/api.js").Json} Json */

const HEIGHT = 44;
const CHANNELS = 6;

export async function showCompare() {
  const main = makeShell("Compare");
  main.classList.add("scrolled");
  const spans = readState().getAll("of");
  if (spans.length < 2) {
    fill(main, h("div", { class: "empty" }, h("h1", {}, "Compare"), h("p", {}, "Select two or more episodes in the list, and press the button Compare.")));
    return;
  }
  try {
    await new ComparePage(main, spans).begin();
  } catch (error) {
    fill(main, h("p", { class: "problem" }, error instanceof Error ? error.message : String(error)));
  }
}

/**
 * For each step of the first, the step of another that it meets; null where it meets none.
 * @param {[number, number][]} pairs
 * @param {number} length
 * @returns {(number | null)[]}
 */
export function warpOf(pairs, length) {
  /** @type {(number | null)[]} */
  const meets = new Array(length).fill(null);
  for (const [left, right] of pairs) if (left < length && meets[left] === null) meets[left] = right;
  return meets;
}

class ComparePage {
  /** @param {HTMLElement} main @param {string[]} spans */
  constructor(main, spans) {
    this.main = main;
    this.spans = spans;
    this.warped = readState().get("clock") !== "own";
    /** @type {(number | null)[][]} */
    this.warps = [];
  }

  async begin() {
    const uids = this.spans.map((span) => span.split("@")[0]);
    const about = await Promise.all(uids.map((uid) => get(`/api/episodes/${encodeURIComponent(uid)}`)));
    const compared = about[0].searched_by.filter((/** @type {string} */ lane) => about.every((one) => one.searched_by.includes(lane)));
    this.about = about;
    this.series = (await get("/api/series", { of: this.spans, compared, lanes: 1, points: 4000 })).items;
    await this.align(uids);
    const first = this.series[0];
    this.clock = new PlayClock(first.span[1] - first.span[0], about[0].rate || 1);
    this.columns = this.series.map((/** @type {Json} */ item, /** @type {number} */ index) => this.column(item, index));
    const slider = h("input", { type: "range", min: 0, max: this.clock.length - 1, value: 0, "aria-label": "Timestep", oninput: () => this.clock?.seek(Number(slider.value)) });
    const play = h("button", { class: "primary play", onclick: () => this.clock?.toggle() }, "▶");
    const warp = h("input", { type: "checkbox", checked: this.warped, onchange: () => {
      this.warped = warp.checked;
      writeState({ clock: this.warped ? null : "own" });
      this.redraw();
    } });
    fill(this.main, h("h1", {}, "Compare"),
      h("div", { class: "transport" }, play, slider, h("label", {}, warp, " warped to the first")),
      this.notes?.map((text) => h("p", { class: "soft" }, text)),
      h("div", { class: "compared" }, this.columns.map((/** @type {Json} */ column) => column.element)));
    this.clock.watch((step, playing) => {
      slider.value = String(Math.floor(step));
      play.textContent = playing ? "❚❚" : "▶";
      play.setAttribute("aria-label", playing ? "Pause" : "Play");
      this.columns?.forEach((/** @type {Json} */ column) => column.show(step, playing));
    });
    onKey(" ", "play or pause", () => this.clock?.toggle());
    onKey("ArrowLeft", "back one timestep", () => this.clock?.seek(Math.floor(this.clock.step) - 1));
    onKey("ArrowRight", "forward one timestep", () => this.clock?.seek(Math.floor(this.clock.step) + 1));
    this.redraw();
    window.addEventListener("themechange", () => this.redraw());
  }

  /** @param {string[]} uids */
  async align(uids) {
    const length = this.series[0].span[1] - this.series[0].span[0];
    this.notes = /** @type {string[]} */ ([]);
    this.warps = await Promise.all(this.spans.map(async (span, index) => {
      if (index === 0 || this.series[0].error || this.series[index].error) return Array.from({ length }, (_, step) => step + this.series[0].span[0]);
      try {
        const path = this.spans[0].includes("@") ? "/api/moments" : "/api/search";
        const found = await get(path, { query: this.spans[0], where: `uid:${uids[index]}`, top: 1, alignment: path === "/api/search" ? true : null });
        if (!found.items[0]?.alignment?.length) throw new Error("it cannot be aligned with the first: their lanes differ");
        return warpOf(found.items[0].alignment, length);
      } catch (error) {
        this.notes?.push(`${nameOf(this.series[index])}: ${error instanceof Error ? error.message : error}`);
        return Array.from({ length }, (_, step) => this.series[index].span[0] + step);
      }
    }));
  }

  /** @param {Json} item @param {number} index */
  column(item, index) {
    const about = this.about?.[index] || {};
    const pictures = item.pictures.slice(0, 1).map((/** @type {string} */ lane) => new Camera(item.uid, lane, about.length));
    const canvas = h("canvas", { role: "img", "aria-label": `Lanes of ${nameOf(item)}` });
    const time = h("output", { class: "soft" });
    const [lane] = item.lanes;
    const channels = lane ? this.channels(item) : [];
    const drawn = lane && `${lane.lane}${channels.length < lane.of ? `, channels ${channels.join(", ")} of ${lane.of}` : ""}`;
    const said = [labelOf(about), `timesteps ${item.span.join(":")}`].filter(Boolean).join(" · ");
    const element = h("section", { class: "compare-column" },
      h("h2", {}, h("a", { href: episodePath(item.uid) }, nameOf(item))),
      h("p", { class: "soft line", title: [said, drawn].filter(Boolean).join(" · ") }, said, h("br"), drawn), item.error && h("p", { class: "problem" }, item.error),
      !item.error && pictures.map((/** @type {Camera} */ camera) => camera.element), !item.error && canvas, !item.error && time);
    const show = (/** @type {number} */ step, /** @type {boolean} */ playing) => {
      const own = this.stepOf(index, Math.floor(step));
      time.textContent = own === null ? "no matching timestep" : `timestep ${own}`;
      if (own !== null) for (const camera of pictures) camera.show(own, playing);
      this.draw(canvas, item, index, step);
    };
    return { element, show };
  }

  /** @param {number} index @param {number} step of the common clock */
  stepOf(index, step) {
    if (this.warped) return this.warps[index][Math.min(step, this.warps[index].length - 1)] ?? null;
    const own = this.series[index].span[0] + step;
    return own < this.series[index].span[1] ? own : null;
  }

  /** The channels that are drawn: those that move most in the first episode that has this lane. @param {Json} item */
  channels(item) {
    const [first, own] = [this.series[0].lanes[0], item.lanes[0]];
    return liveliest(!first || (own && own.lane !== first.lane) ? own : first, CHANNELS);
  }

  redraw() {
    this.clock?.seek(this.clock.step);
  }

  /** @param {HTMLCanvasElement} canvas @param {Json} item @param {number} index @param {number} step */
  draw(canvas, item, index, step) {
    const lane = item.lanes[0];
    if (!lane || !this.clock) return;
    const channels = this.channels(item);
    const width = Math.max(200, canvas.parentElement?.clientWidth || 300);
    const context = context2d(canvas, width, HEIGHT * channels.length);
    const place = new Map(lane.steps.map((/** @type {number} */ value, /** @type {number} */ at) => [value, at]));
    channels.forEach((channel, row) => {
      const values = lane.values[channel] || [];
      const [low, high] = spreadOf([...(this.series[0].lanes[0]?.lane === lane.lane ? this.series[0].lanes[0].values[channel] || [] : []), ...values]);
      context.strokeStyle = channelColour(channel);
      context.lineWidth = 1.4;
      context.beginPath();
      let down = false;
      for (let at = 0; at < (this.clock?.length || 0); at += 1) {
        const own = this.stepOf(index, at);
        const value = own === null ? undefined : values[place.get(own) ?? -1];
        if (value === undefined || value === null) continue;
        const x = (at / Math.max(1, (this.clock?.length || 2) - 1)) * width;
        const y = (row + 1) * HEIGHT - 4 - (high > low ? (value - low) / (high - low) : 0.5) * (HEIGHT - 8);
        if (down) context.lineTo(x, y);
        else context.moveTo(x, y);
        down = true;
      }
      context.stroke();
    });
    context.fillStyle = themed("--bad");
    context.fillRect((step / Math.max(1, this.clock.length - 1)) * width, 0, 1.5, HEIGHT * channels.length);
  }
}
