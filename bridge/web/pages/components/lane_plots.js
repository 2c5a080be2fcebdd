// Plots of lanes: channels that one toggles, predictions over their truth, findings where they are, one playhead.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { channelColour } from "../base/colours.js";
import { fill, h, themed } from "../base/dom.js";
import { drawEvents } from "../base/events.js";
import { number, shown } from "../base/format.js";
import { channelLabel, errorOf, nearest, onSteps } from "../model/series.js";
import { spreadOf } from "./sparkline.js";

/** @typedef {import("../model/series.js").Group} Group */
/** @typedef {import("../model/findings.js").Mark} Mark */
/** @typedef {{ onHover: (step: number) => void, onSeek: (step: number) => void, onSpan: (start: number, stop: number, plot: LanePlot) => void }} Listeners */

const SHOWN = 8;
const HEIGHT = 164;
const READABLE_MS = 150; // from one value to the next while it plays
const STEPS = Array.from({ length: 9 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();
const SECONDS = [...STEPS.map((one) => one / 1000).filter((one) => one < 10), 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 36_000];

/** How people want the axis of time: "steps" or "seconds". */
export function readAxis() {
  return localStorage.getItem("wshard-axis") || "steps";
}

/** @param {string} axis */
export function keepAxis(axis) {
  localStorage.setItem("wshard-axis", axis);
}

export class LanePlot {
  /**
   * @param {Group} group
   * @param {Mark[]} marks
   * @param {{ length: number, rate: number | null, events: import("../base/events.js").Event[], rates: Record<string, { rate: number | null }> }} episode rate: of its clock; rates: by lane
   * @param {Listeners} listeners
   */
  constructor(group, marks, episode, listeners) {
    this.group = group;
    this.marks = marks.filter((mark) => !mark.lane || mark.lane === group.truth.lane);
    this.episode = episode;
    this.listeners = listeners;
    this.step = 0;
    /** @type {[number, number] | null} */
    this.span = null;
    const spreads = group.truth.values.map(spreadOf);
    const moving = group.truth.values.map((_, index) => index).filter((index) => spreads[index][1] > spreads[index][0]);
    const { truth } = group;
    const marked = this.marks.flatMap((mark) => [...truth.values.keys()].filter((index) => [channelLabel(truth, index), String(truth.channels[index])].includes(mark.channel ?? "")));
    const first = [...marked, ...(moving.length ? moving : group.truth.values.map((_, index) => index))];
    /** @type {Set<number>} */
    this.visible = new Set(first.slice(0, SHOWN));
    this.chips = h("div", { class: "chips", role: "group", "aria-label": `Channels of ${group.truth.lane}` });
    this.place = h("div", { class: "plot", role: "img", "aria-label": `Plot of ${group.truth.lane}` });
    this.head = h("div", { class: "playhead", "aria-hidden": "true" });
    this.writtenAt = 0;
    /** @type {HTMLElement[]} where the value of each channel stands */
    this.values = group.truth.values.map(() => h("span", { class: "value" }));
    const rate = episode.rates[group.truth.lane]?.rate;
    const about = [group.truth.unit, rate && `${shown(rate)} Hz`].filter(Boolean).join(" · ");
    this.element = h("section", { class: "lane", "aria-label": group.truth.lane },
      h("header", {}, h("h2", {}, group.truth.lane), h("span", { class: "soft" }, about), this.chips),
      this.legend(),
      this.marks.map((mark) => h("p", { class: "mark" }, h("span", { class: "flag" }, mark.check), " ",
        h("button", { class: "link", onclick: () => this.listeners.onSeek(mark.step) }, mark.reason))),
      this.place);
    this.drawChips();
  }

  /** What is drawn over the lane: how far predictions are from it, and which residuals stand below. */
  legend() {
    const { truth, omens, residuals } = this.group;
    const parts = [
      ...omens.map((omen) => `${omen.lane}: dashed, off by ${Number(errorOf(truth, omen).toPrecision(3))} (root mean square)`),
      ...residuals.map((one) => `${one.lane}: below, filled where positive`),
    ];
    return parts.length > 0 && h("p", { class: "soft drawn" }, parts.join("; "));
  }

  drawChips() {
    const { truth } = this.group;
    if (truth.values.length < 2) {
      fill(this.chips, h("span", { class: "chip" }, this.values[0]));
      return;
    }
    fill(this.chips,
      truth.values.map((_, index) => {
        const chip = h("button", {
          class: "chip", "aria-pressed": String(this.visible.has(index)),
          onclick: () => this.toggle(index),
        }, h("span", { class: "unseen" }, "Channel "), channelLabel(truth, index), " ", this.values[index]);
        chip.style.setProperty("--channel", channelColour(truth.channels[index]));
        return chip;
      }),
      h("button", { class: "chip", onclick: () => this.toggleAll() }, this.visible.size ? "none" : "all"));
  }

  /** @param {number} index */
  toggle(index) {
    if (this.visible.has(index)) this.visible.delete(index);
    else this.visible.add(index);
    this.rebuild();
  }

  toggleAll() {
    this.visible = this.visible.size ? new Set() : new Set(this.group.truth.values.keys());
    this.rebuild();
  }

  rebuild() {
    this.drawChips();
    this.build();
  }

  build() {
    this.plot?.destroy();
    const { truth, omens, uncerts } = this.group;
    const visible = [...this.visible].filter((index) => truth.values[index]).sort((a, b) => a - b);
    /** @type {uPlot.Series[]} */
    const series = [{}];
    /** @type {(number | null)[][]} */
    const data = [truth.steps];
    /** @type {uPlot.Band[]} */
    const bands = [];
    for (const index of visible) {
      const own = series.length;
      const colour = channelColour(truth.channels[index]);
      series.push({ label: channelLabel(truth, index), stroke: colour, width: 1.4, spanGaps: false });
      data.push(truth.values[index]);
      for (const omen of omens) {
        if (!omen.values[index]) continue;
        const predicted = onSteps(omen, index, truth.steps);
        series.push({ label: omen.lane, stroke: colour, width: 1.2, dash: [5, 4] });
        data.push(predicted);
        bands.push({ series: [own, series.length - 1], fill: `${colour}18` }, { series: [series.length - 1, own], fill: `${colour}18` });
        const doubt = uncerts.find((one) => one.lane.startsWith(omen.lane.replace("omen/", "uncert/")));
        if (!doubt?.values[index]) continue;
        const spread = onSteps(doubt, index, truth.steps);
        const at = series.length;
        for (const sign of [1, -1]) {
          series.push({ label: doubt.lane, stroke: "transparent", width: 0 });
          data.push(predicted.map((value, step) => (value === null || spread[step] === null ? null : value + sign * Math.abs(/** @type {number} */ (spread[step])))));
        }
        bands.push({ series: [at, at + 1], fill: `${colour}33` });
      }
    }
    const ink = themed("--soft");
    const { rate } = this.episode;
    const inSeconds = rate !== null && readAxis() === "seconds";
    const axis = { stroke: ink, grid: { stroke: themed("--line"), width: 1 }, ticks: { stroke: themed("--line") }, font: "11px system-ui" };
    this.plot = new uPlot({
      width: this.place.clientWidth || 600,
      height: HEIGHT,
      series,
      bands,
      legend: { show: false },
      scales: { x: { time: false, range: [0, Math.max(1, this.episode.length - 1)] } },
      axes: [
        {
          ...axis, size: 26, label: inSeconds ? "seconds" : "timestep", labelSize: 14, labelFont: axis.font, labelGap: 0,
          incrs: inSeconds ? SECONDS.map((one) => one * rate) : STEPS,
          values: (/** @type {uPlot} */ _plot, /** @type {number[]} */ ticks) => ticks.map((tick) => String(inSeconds ? Number((tick / rate).toPrecision(6)) : tick)),
        },
        { ...axis, size: 56, space: 20, ...(truth.unit ? { label: truth.unit, labelSize: 14, labelFont: axis.font, labelGap: 0 } : {}) },
      ],
      cursor: { y: false, points: { size: 5 }, drag: { x: true, y: false, setScale: false } },
      hooks: {
        setCursor: [(plot) => this.hovered(plot)],
        setSelect: [(plot) => this.selected(plot)],
        draw: [(plot) => this.drawMarks(plot), () => this.placeOver()],
      },
    }, /** @type {uPlot.AlignedData} */ (/** @type {unknown} */ (data)), this.place);
    this.plot.over.append(this.head);
    this.plot.over.addEventListener("click", (event) => this.clicked(event));
  }

  /** Playhead and span, where the scale is known: uPlot takes a size and a scale up only just before it draws. */
  placeOver() {
    this.show(this.step);
    this.showSpan(this.span);
  }

  /** @param {uPlot} plot */
  hovered(plot) {
    const { left } = plot.cursor;
    if (left === undefined || left === null || left < 0) return;
    this.listeners.onHover(Math.round(plot.posToVal(left, "x")));
  }

  /** @param {uPlot} plot */
  selected(plot) {
    const { left, width } = plot.select;
    if (width < 3 || this.placing) return;
    const start = Math.max(0, Math.round(plot.posToVal(left, "x")));
    const stop = Math.min(this.episode.length, Math.round(plot.posToVal(left + width, "x")) + 1);
    this.dragged = true;
    if (stop - start >= 2) this.listeners.onSpan(start, stop, this);
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    if (this.dragged) {
      this.dragged = false;
      return;
    }
    if (!this.plot) return;
    const box = this.plot.over.getBoundingClientRect();
    this.listeners.onSeek(Math.round(this.plot.posToVal(event.clientX - box.left, "x")));
  }

  /** @param {uPlot} plot */
  drawMarks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    for (const mark of this.marks) {
      const from = plot.valToPos(mark.step - (mark.lasting ? 0 : 0.5), "x", true);
      const to = mark.lasting ? bbox.left + bbox.width : plot.valToPos(mark.step + 0.5, "x", true);
      ctx.globalCompositeOperation = "destination-over";
      ctx.fillStyle = themed("--flag");
      ctx.fillRect(from, bbox.top, Math.max(3, to - from), bbox.height);
    }
    ctx.restore();
    drawEvents(plot, this.episode.events);
    this.drawResiduals(plot);
  }

  /** A line of marks for each residual and channel that is shown, at the foot of the plot. @param {uPlot} plot */
  drawResiduals(plot) {
    const { ctx, bbox } = plot;
    const tall = 3 * devicePixelRatio;
    let foot = bbox.top + bbox.height;
    ctx.save();
    for (const residual of this.group.residuals) {
      for (const index of [...this.visible].sort((a, b) => a - b)) {
        const signs = residual.values[index];
        if (!signs) continue;
        foot -= tall + devicePixelRatio;
        ctx.fillStyle = channelColour(residual.channels[index]);
        residual.steps.forEach((step, at) => {
          ctx.globalAlpha = Number(signs[at]) > 0 ? 1 : 0.2;
          const from = plot.valToPos(step - 0.5, "x", true);
          const until = plot.valToPos((residual.steps[at + 1] ?? step + 1) - 0.5, "x", true);
          ctx.fillRect(Math.max(bbox.left, from), foot, until - Math.max(bbox.left, from), tall);
        });
      }
    }
    ctx.restore();
  }

  /** @param {number} step @param {boolean} [playing] */
  show(step, playing = false) {
    this.step = step;
    if (!this.plot) return;
    this.head.style.transform = `translateX(${this.plot.valToPos(step, "x")}px)`;
    const now = performance.now();
    if (playing && now - this.writtenAt < READABLE_MS) return; // to write numbers costs videos their frames
    this.writtenAt = now;
    const { truth } = this.group;
    const at = nearest(truth.steps, step);
    this.values.forEach((place, index) => {
      const value = truth.values[index][at];
      const text = value === null || value === undefined ? "–" : number(value);
      if (place.textContent !== text) place.textContent = text;
    });
  }

  /** @param {[number, number] | null} span */
  showSpan(span) {
    this.span = span;
    if (!this.plot) return;
    const { plot } = this;
    this.placing = true;
    if (span === null) plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    else {
      const left = plot.valToPos(span[0], "x");
      plot.setSelect({ left, top: 0, width: plot.valToPos(span[1] - 1, "x") - left, height: plot.over.clientHeight }, false);
    }
    this.placing = false;
  }

  resize() {
    if (this.plot && this.place.clientWidth) this.plot.setSize({ width: this.place.clientWidth, height: HEIGHT });
  }
}
