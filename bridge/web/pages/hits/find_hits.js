// Asks for hits: episodes, moments, or frames of cameras, whichever the query and its examples are about.
import { get } from "../base/api.js";
import { number, plural } from "../base/format.js";
import { getComputed } from "../base/jobs.js";
import { isPicture } from "../model/example.js";
import { quoteValue } from "../model/filter_text.js";

/** @typedef {import("../base/api.js").Json} Json */
/** @typedef {{ like: string[], unlike: string[], where: string, text: string, onePer: boolean, others: boolean, diversity: number, top: number, more?: import("../components/search_options.js").SearchOptionsForm }} Options */

const MOST_WORDS = 12; // that are counted, each by a request
const MOST_COUNTED = 250; // episodes of such a request

/**
 * Ask for hits; where frames of cameras are read before, say how far that is.
 * @param {string} path
 * @param {Record<string, unknown>} asked
 * @param {AbortSignal} signal
 * @param {(text: string) => void} onProgress
 */
function ask(path, asked, signal, onProgress) {
  const say = (/** @type {Json} */ job) => onProgress(job.total ? `reading frames of cameras: ${number(job.done)} of ${plural(job.total, "episode")} …` : "waiting for other jobs …");
  return getComputed(path, asked, { background: true }, say, signal);
}

/**
 * Ask for hits: moments where the query is a span or what cameras saw, else episodes.
 * @param {string | null} query as parseExample
 * @param {Options} options
 * @param {AbortSignal} signal
 * @param {(text: string) => void} onProgress
 */
export async function findHits(query, options, signal, onProgress) {
  const examples = [query, ...options.like].filter(Boolean);
  const common = { query, like: options.like, unlike: options.unlike, where: options.where, top: options.top, exclude_self: examples.length > 0 && options.others };
  const more = options.more?.chosen("/api/search") || {};
  const pictures = examples.filter((one) => isPicture(String(one))).length;
  const ofCameras = pictures > 0 || more.words;
  const ofSpans = (ofCameras ? pictures === examples.length : examples.some((one) => one?.includes("@"))) && !options.text && !more.windows_only;
  if (ofSpans) return ask("/api/moments", { ...common, per_episode: options.onePer ? 1 : null, ...options.more?.chosen("/api/moments") }, signal, onProgress);
  const distinct = (more.windows_only || more.windows) && options.onePer ? true : null;
  const found = await ask("/api/search", { ...common, distinct, text: options.text, diversity: options.diversity || null, alignment: (examples.length > 0 && !ofCameras) || null, ...more }, signal, onProgress);
  if (options.text) await countWords(found.items, options.text, signal);
  return found;
}

/**
 * Let hits of words say how many of them they have: scores are shares of that of the best, which may lack some.
 * @param {Json[]} hits
 * @param {string} text
 * @param {AbortSignal} signal
 */
async function countWords(hits, text, signal) {
  const words = [...new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu))];
  const uids = [...new Set(hits.map((hit) => hit.uid))].slice(0, MOST_COUNTED);
  if (words.length < 2 || words.length > MOST_WORDS || !uids.length) return;
  const pages = await Promise.all(words.map((word) =>
    get("/api/episodes", { where: `uid:${uids.join(",")} text:${quoteValue(word)}`, limit: uids.length, columns: ["uid"], count: false }, signal)));
  const having = pages.map((page) => new Set(page.items.map((/** @type {Json} */ row) => row.uid)));
  const counted = new Set(uids);
  for (const hit of hits.filter((one) => counted.has(one.uid))) hit.words = `${having.filter((one) => one.has(hit.uid)).length} of ${words.length} words`;
}
