// Review queues as lines: one episode each, with what is said of it.
import { number } from "./format.js";

/** @typedef {import("./api.js").Json} Json */

/**
 * One line per episode to look at, with what is said of it.
 * @param {string} queue
 * @param {Json[]} items
 * @returns {Json[]}
 */
export function linesOf(queue, items) {
  if (queue === "duplicates") {
    return items.flatMap((group) => group.pairs.map((/** @type {Json} */ pair) =>
      ({ ...pair.right, said: `${pair.kind}, ${number(pair.apart)} apart`, other: pair.left })));
  }
  if (queue === "leaks") return items.map((pair) => ({ ...pair.right, said: `${pair.kind}, ${number(pair.apart)} apart`, other: pair.left }));
  if (queue === "flagged") return items.map((item) => ({ ...item, said: item.reason }));
  return items.map((item) => ({ ...item, said: item.suggested ? `${item.label} → ${item.suggested}? (${number(item.value)})` : number(item.value) }));
}
