// Review queues as lines: one episode each, with what is said of it; and how far a queue is that is being computed.
import { number, plural } from "../base/format.js";

/** @typedef {import("../base/api.js").Json} Json */

/** The queues: their titles, what is in them, and the head of the column that says why. */
export const QUEUES = /** @type {Record<string, { title: string, about: string, why: string, none: string }>} */ ({
  unreviewed: { title: "Unreviewed", why: "Length", about: "Episodes that nobody has reviewed, by name.", none: "Every episode that passes the filter is reviewed." },
  flagged: { title: "Flagged", why: "Findings", about: "Episodes in which checks of quality found something, the newest first.", none: "No check has found anything: run `wshard check` on episodes that were not checked yet, or go on with another queue." },
  duplicates: { title: "Duplicates", why: "Difference", about: "Episodes with the same data as another one, or nearly the same, in any Space; pieces cut out of others on request.", none: "No two that could be compared are alike: tick the box above to look for pieces of episodes, too." },
  leaks: { title: "Leaks", why: "Difference", about: "Episodes of the second set that are copies of episodes of the first.", none: "No episode that could be compared is a copy of one of the first set." },
  outliers: { title: "Outliers", why: "Distance", about: "Episodes that are far even from those most similar to them, the farthest first.", none: "No episode passes the filter and has this Space." },
  mislabeled: { title: "Doubtful labels", why: "Doubt", about: "Episodes whose neighbours have other labels than theirs, the most doubtful first.", none: "No label is doubted by the neighbours of its episode." },
});

/** What an episode is called in all pages: by a name that no other has, where that is known. @param {Json} row @returns {string} */
export function nameOf(row) {
  return row.name || row.episode_id || row.uid;
}

/**
 * How many are in a queue, of how many, why no more, and what could not be compared.
 * @param {string} queue
 * @param {Json} found
 * @returns {string}
 */
export function cutOf(queue, { items, total, of, cut, left_out }) {
  const what = queue === "duplicates" ? "group" : queue === "leaks" ? "pair" : "episode";
  const first = total > items.length ? `, the first ${number(items.length)} are listed` : "";
  return `${of ? `${number(total)} of ${plural(of, what)}` : plural(total, what)}${cut ? `: ${cut}` : ""}${first}.${left_out ? ` ${left_out}.` : ""}`;
}

const KINDS = /** @type {Record<string, string>} */ ({
  episode: "the same episode", data: "the same data", vector: "equal vectors", near: "nearly the same", rate: "at another rate", piece: "a piece of it",
});

/** How two episodes differ: their kind, and how far they are apart. @param {Json} pair */
function differenceOf({ kind, apart }) {
  const far = apart < 0.001 ? "less than 0.001" : number(apart);
  return apart > 0 ? `${KINDS[kind]}, ${far} standard deviations apart` : KINDS[kind];
}

/**
 * One line per episode to look at, with what is said of it.
 * @param {string} queue
 * @param {Json[]} items
 * @returns {Json[]}
 */
export function linesOf(queue, items) {
  if (queue === "duplicates") {
    return items.flatMap((group) => group.pairs.map((/** @type {Json} */ pair) =>
      ({ ...pair.right, said: differenceOf(pair), other: pair.left })));
  }
  if (queue === "leaks") return items.map((pair) => ({ ...pair.right, said: differenceOf(pair), other: pair.left }));
  if (queue === "flagged") return items.map((item) => ({ ...item, said: item.reason }));
  if (queue === "unreviewed") return items.map((item) => ({ ...item, said: plural(item.length, "timestep") }));
  return items.map((item) => ({ ...item, said: item.suggested ? `${item.label} → ${item.suggested}? (${number(item.value)})` : number(item.value) }));
}

/**
 * What the job of a queue is doing. After the last item of a stage the next one, or the ranking of all, has begun.
 * @param {Json} job
 * @returns {string}
 */
export function progressOf(job) {
  if (!job.total) return `${job.what || "waiting for other jobs"} …`;
  return job.done < job.total ? `${job.what}: ${number(job.done)} of ${number(job.total)}` : `${job.what} done, computing the queue …`;
}
