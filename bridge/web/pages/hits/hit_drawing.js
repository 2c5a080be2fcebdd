// A hit over the query: both on the hit's alignment, channel by channel.
import { get } from "../base/api.js";
import { channelColour } from "../base/colours.js";
import { context2d, themed } from "../base/dom.js";
import { spreadOf } from "../components/sparkline.js";

/** @typedef {import("../base/api.js").Json} Json */
/** @typedef {import("../model/series.js").Series} Series */
/** @typedef {{ item: Json, query: Series | null, of: [number, number] }} HitDrawing of: the span of the query, whose steps begin at 0 */

/** @type {Series} what is drawn of a query that has no lane with the hit */
export const NOTHING = { lane: "", steps: [], channels: [], values: [], of: 0 };

/**
 * Read what each hit's card draws: a lane by which it was compared, and that lane of the query; of other hits, its own.
 * @param {Json[]} hits
 * @param {string[]} spans of the hits
 * @param {string | null} query
 * @param {AbortSignal} signal
 * @returns {Promise<HitDrawing[]>}
 */
export async function readDrawings(hits, spans, query, signal) {
  /** @type {Map<string, number[]>} the hits that were compared by the same lanes */
  const groups = new Map();
  hits.forEach((hit, at) => {
    const key = JSON.stringify((!hit.seen && hit.compared_by) || []);
    groups.set(key, [...(groups.get(key) ?? []), at]);
  });
  /** @type {HitDrawing[]} */
  const drawings = [];
  await Promise.all([...groups].map(async ([key, places]) => {
    const compared = /** @type {string[]} */ (JSON.parse(key));
    const own = compared.length ? query : null;
    const of = places.map((at) => spans[at]);
    const items = /** @type {Json[]} */ ((await get("/api/series", { of: own ? [own, ...of] : of, compared, points: 400, lanes: 1 }, signal)).items);
    const first = own ? items.shift() : null;
    places.forEach((at, index) => {
      const item = items[index];
      drawings[at] = { item, query: first ? overlaid(first, item) : null, of: first?.span ?? [0, 0] };
    });
  }));
  return drawings;
}

/** The query's lane by the channels of a hit's, its steps from 0; null where they are not the same lane. @param {Json} first @param {Json} item */
function overlaid(first, item) {
  const [query, series] = /** @type {(Series | undefined)[]} */ ([first.lanes[0], item.lanes[0]]);
  if (!query || query.lane !== series?.lane) return null;
  const steps = query.steps.map((step) => step - first.span[0]);
  if (query.of === series.of) return { ...query, steps };
  if (!query.names?.length || !series.names?.length) return null;
  const places = series.names.map((name) => query.names?.indexOf(name) ?? -1);
  return { ...series, steps, values: places.map((place) => query.values[place] ?? []) };
}

/**
 * The pairs (query step, hit step) along which both are drawn; of hits without an alignment, both from end to end.
 * @param {[number, number][]} alignment
 * @param {[number, number]} query
 * @param {[number, number]} hit
 * @returns {[number, number][]}
 */
export function pairsOf(alignment, query, hit) {
  if (alignment.length) return alignment;
  const count = Math.max(2, Math.min(query[1] - query[0], hit[1] - hit[0]));
  return Array.from({ length: count }, (_, index) => {
    const share = index / (count - 1);
    return [Math.round(share * (query[1] - query[0] - 1)), Math.round(hit[0] + share * (hit[1] - hit[0] - 1))];
  });
}

/**
 * Draw query (thin, gray) and hit (coloured) over one another, in the order of the alignment.
 * @param {HTMLCanvasElement} canvas
 * @param {{ query: Series, hit: Series, pairs: [number, number][], channels: number[], width: number, height: number }} what query's steps begin at 0
 */
export function drawOverlay(canvas, { query, hit, pairs, channels, width, height }) {
  const context = context2d(canvas, width, height);
  const rows = Math.max(1, channels.length);
  const tall = height / rows;
  const queryAt = new Map(query.steps.map((step, index) => [step, index]));
  const hitAt = new Map(hit.steps.map((step, index) => [step, index]));
  channels.forEach((channel, row) => {
    const left = query.values[channel] || [];
    const right = hit.values[channel] || [];
    const [low, high] = spreadOf([...left, ...right]);
    const y = (/** @type {number} */ value) => (row + 1) * tall - 3 - (high > low ? (value - low) / (high - low) : 0.5) * (tall - 6);
    const x = (/** @type {number} */ index) => (index / Math.max(1, pairs.length - 1)) * (width - 2) + 1;
    const line = (/** @type {(pair: [number, number]) => number | null | undefined} */ valueOf, /** @type {string} */ colour, /** @type {number} */ thick) => {
      context.strokeStyle = colour;
      context.lineWidth = thick;
      context.beginPath();
      let down = false;
      pairs.forEach((pair, index) => {
        const value = valueOf(pair);
        if (value === null || value === undefined) return;
        if (down) context.lineTo(x(index), y(value));
        else context.moveTo(x(index), y(value));
        down = true;
      });
      context.stroke();
    };
    line(([step]) => left[queryAt.get(step) ?? -1], themed("--soft"), 2.4);
    line(([, step]) => right[hitAt.get(step) ?? -1], channelColour(channel), 1.4);
  });
}

/**
 * Draw which steps meet: a line from each step of the query (above) to one of the hit (below).
 * @param {HTMLCanvasElement} canvas
 * @param {{ pairs: [number, number][], width: number, height: number }} what
 */
export function drawAlignment(canvas, { pairs, width, height }) {
  const context = context2d(canvas, width, height);
  if (!pairs.length) return;
  const [first, last] = [pairs[0], pairs[pairs.length - 1]];
  const share = (/** @type {number} */ value, /** @type {number} */ from, /** @type {number} */ to) => (to > from ? (value - from) / (to - from) : 0.5);
  context.strokeStyle = themed("--accent");
  context.globalAlpha = 0.55;
  const every = Math.max(1, Math.floor(pairs.length / 40));
  pairs.forEach(([left, right], index) => {
    if (index % every) return;
    context.beginPath();
    context.moveTo(1 + share(left, first[0], last[0]) * (width - 2), 0);
    context.lineTo(1 + share(right, first[1], last[1]) * (width - 2), height);
    context.stroke();
  });
}

/**
 * The channels that move most in what was asked for, by their share of their spread.
 * @param {Series} query
 * @param {number} most
 */
export function liveliest(query, most) {
  const spreads = query.values.map((values, channel) => {
    const [low, high] = spreadOf(values);
    return { channel, spread: high - low };
  });
  return spreads.filter((one) => one.spread > 0).sort((a, b) => b.spread - a.spread).slice(0, most).map((one) => one.channel).sort((a, b) => a - b);
}
