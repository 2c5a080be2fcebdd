// Review queues as lines: one episode each, with what is said of it; and how far a queue is that is being computed.
import { number } from "../base/format.js";

/** @typedef {import("../base/api.js").Json} Json */

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

/**
 * What the job of a queue is doing. After the last item of a stage the next one, or the ranking of all, has begun.
 * @param {Json} job
 * @returns {string}
 */
export function progressOf(job) {
  if (!job.total) return `${job.what || job.state} …`;
  return job.done < job.total ? `${job.what}: ${job.done} of ${job.total}` : `${job.what} done, computing the queue …`;
}
