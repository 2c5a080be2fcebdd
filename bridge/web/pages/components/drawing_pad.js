// Draw a movement, channel by channel, over those of a few episodes: by mouse, or by the arrow keys.
import { get } from "../base/api.js";
import { channelColour } from "../base/colours.js";
import { context2d, fill, h, themed } from "../base/dom.js";
import { number } from "../base/format.js";
import { Drawing, POINTS } from "../model/drawing.js";
import { quoteValue } from "../model/filter_text.js";
import { channelLabel } from "../model/series.js";
import { spreadOf } from "./sparkline.js";

/** @typedef {import("../base/api.js").Json} Json */
/** @typedef {import("../model/series.js").Series} Series */

const EXAMPLES = 12;
const SIZE = { width: 560, height: 170 };
const MARGIN = 6;

export class DrawingPad {
  /** @param {(file: File) => Promise<void>} onDrawn */
  constructor(onDrawn) {
    this.onDrawn = onDrawn;
    this.drawing = new Drawing([]);
    /** @type {Series[][]} lanes of each example */
    this.examples = [];
    this.at = 0; // the point that arrow keys move
    /** @type {[number, number] | null} */
    this.down = null;
    this.kind = h("select", { "aria-label": "Movements as of", onchange: () => void this.load() });
    this.channel = h("select", { "aria-label": "Channel", onchange: () => this.draw() });
    this.steps = h("input", { type: "number", min: 2, max: 100000, value: 60, "aria-label": "Timesteps" });
    this.canvas = h("canvas", {
      tabindex: 0, role: "application", "aria-label": "Drawing: left and right choose a point, up and down move it",
      onpointerdown: (/** @type {PointerEvent} */ event) => { this.canvas.setPointerCapture(event.pointerId); this.down = this.pointOf(event); this.moved(event); },
      onpointermove: (/** @type {PointerEvent} */ event) => this.moved(event),
      onpointerup: () => { this.down = null; },
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.pressed(event),
    });
    this.value = h("output", { class: "soft" });
    this.find = h("button", { class: "primary", disabled: true, onclick: () => void this.submit() }, "Find movements like this");
    this.element = h("div", { class: "pad" },
      h("div", { class: "controls" }, h("label", {}, "as in ", this.kind), h("label", {}, "channel ", this.channel), h("label", {}, "timesteps ", this.steps)),
      this.canvas,
      h("div", { class: "controls" }, this.find, h("button", { onclick: () => { this.drawing.clear(this.index); this.draw(); } }, "Clear this channel"), this.value));
    window.addEventListener("themechange", () => this.draw());
  }

  get index() {
    return Math.max(0, this.channel.selectedIndex);
  }

  /** Offer the environments, and draw the first one's movements. */
  async begin() {
    const found = await get("/api/facets", { field: "env", limit: 100 });
    const names = /** @type {Json[]} */ (found.items[0].values).map((one) => one.value);
    fill(this.kind, names.map((name) => h("option", { value: name ?? "" }, name ?? "(no environment)")));
    await this.load();
  }

  async load() {
    const where = this.kind.value ? `env:${quoteValue(this.kind.value)}` : "";
    const { items } = await get("/api/episodes", { where, limit: EXAMPLES, columns: ["uid", "length"], count: false });
    if (!items.length) return;
    const { searched_by: lanes } = await get(`/api/episodes/${encodeURIComponent(items[0].uid)}`);
    const lengths = items.map((/** @type {Json} */ one) => one.length).sort((/** @type {number} */ a, /** @type {number} */ b) => a - b);
    this.steps.value = String(lengths[lengths.length >> 1]);
    const found = lanes.length ? await get("/api/series", { of: items.map((/** @type {Json} */ one) => one.uid), lane: lanes, points: 80 }) : { items: [] };
    this.examples = found.items.filter((/** @type {Json} */ one) => !one.error).map((/** @type {Json} */ one) => one.lanes);
    const first = this.examples[0] ?? [];
    const channels = first.flatMap((series, lane) => series.channels.map((channel, index) => {
      const spreads = this.examples.map((one) => spreadOf(one[lane]?.values[index] ?? []));
      const name = first.length > 1 ? `${series.lane} ${channelLabel(series, index)}` : channelLabel(series, index);
      return { lane: series.lane, channel, name, low: Math.min(...spreads.map(([low]) => low)), high: Math.max(...spreads.map(([, high]) => high)), series: lane, index };
    }));
    this.drawing = new Drawing(channels);
    fill(this.channel, channels.map((one) => h("option", {}, one.name)));
    const moving = channels.findIndex((one) => one.high > one.low);
    this.channel.selectedIndex = Math.max(0, moving);
    this.draw();
  }

  /** @param {PointerEvent} event @returns {[number, number]} place and share */
  pointOf(event) {
    const box = this.canvas.getBoundingClientRect();
    const place = ((event.clientX - box.left - MARGIN) / (box.width - 2 * MARGIN)) * (POINTS - 1);
    return [Math.min(POINTS - 1, Math.max(0, place)), 1 - (event.clientY - box.top - MARGIN) / (box.height - 2 * MARGIN)];
  }

  /** @param {PointerEvent} event */
  moved(event) {
    if (!this.down) return;
    const point = this.pointOf(event);
    this.drawing.line(this.index, this.down, point);
    this.down = point;
    this.at = Math.round(point[0]);
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const step = /** @type {Record<string, number>} */ ({ ArrowLeft: -1, ArrowRight: 1 })[event.key];
    const rise = /** @type {Record<string, number>} */ ({ ArrowUp: 0.05, ArrowDown: -0.05 })[event.key];
    if (!step && !rise) return;
    event.preventDefault();
    event.stopPropagation();
    const share = this.drawing.course(this.index)?.[this.at] ?? 0.5;
    if (rise) this.drawing.line(this.index, [this.at, share], [this.at, share + rise]);
    else {
      const next = Math.min(POINTS - 1, Math.max(0, this.at + step));
      if (event.shiftKey) this.drawing.line(this.index, [this.at, share], [next, share]); // keeps its height
      this.at = next;
    }
    this.draw();
  }

  draw() {
    const context = context2d(this.canvas, SIZE.width, SIZE.height);
    const channel = /** @type {Json | undefined} */ (this.drawing.channels[this.index]);
    this.find.disabled = this.drawing.isEmpty;
    if (!channel) return;
    const x = (/** @type {number} */ share) => MARGIN + share * (SIZE.width - 2 * MARGIN);
    const y = (/** @type {number} */ share) => MARGIN + (1 - share) * (SIZE.height - 2 * MARGIN);
    const line = (/** @type {(number | null)[]} */ shares) => {
      context.beginPath();
      shares.forEach((share, at) => { if (share !== null) context.lineTo(x(at / Math.max(1, shares.length - 1)), y(share)); });
      context.stroke();
    };
    context.strokeStyle = themed("--line");
    for (const lanes of this.examples) line((lanes[channel.series]?.values[channel.index] ?? []).map((value) => (value === null ? null : (value - channel.low) / (channel.high - channel.low || 1))));
    const own = this.drawing.course(this.index);
    context.strokeStyle = channelColour(channel.channel);
    context.lineWidth = 2.4;
    if (own) line(own);
    const share = own?.[this.at] ?? 0.5;
    context.fillStyle = context.strokeStyle;
    context.beginPath();
    context.arc(x(this.at / (POINTS - 1)), y(share), 4, 0, 7);
    context.fill();
    fill(this.value, own ? `${channel.name} = ${number(channel.low + share * (channel.high - channel.low))}` : `${channel.name}: ${number(channel.low)} to ${number(channel.high)} in the gray episodes; not drawn: its middle`);
  }

  async submit() {
    const steps = Math.max(2, Number(this.steps.value) || 2);
    await this.onDrawn(new File([this.drawing.toCsv(steps)], "drawing.csv"));
  }
}
