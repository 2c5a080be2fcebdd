// Events of an episode: listed above its plots, where a click leads to one, and drawn as lines on each of them.
import { h, themed } from "./dom.js";

/** @typedef {{ lane: string, step: number, text: string }} Event */

const MOST = 60; // of the list

/** What an event says, with the lane that says it where there are several. @param {Event} event */
export function wordsOf(event) {
  const name = event.lane.startsWith("aux/text/") ? event.lane.slice("aux/text/".length) : "";
  return name ? `${name}: ${event.text}` : event.text;
}

/**
 * @param {Event[]} events
 * @param {(step: number) => void} seek
 */
export function listEvents(events, seek) {
  if (!events.length) return null;
  return h("section", { class: "lane events", "aria-label": "Events" }, h("h2", {}, "Events"),
    h("ol", {}, events.slice(0, MOST).map((event) =>
      h("li", {}, h("button", { class: "link", onclick: () => seek(event.step) }, h("b", {}, String(event.step)), ` ${wordsOf(event)}`))),
    events.length > MOST && h("li", { class: "soft" }, `and ${events.length - MOST} more`)));
}

/** @param {import("uplot")} plot @param {Event[]} events */
export function drawEvents(plot, events) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = themed("--soft");
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  for (const { step } of events) {
    const at = Math.round(plot.valToPos(step, "x", true)) + 0.5;
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
  }
  ctx.stroke();
  ctx.restore();
}
