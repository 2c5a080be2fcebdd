// Review queues as the server gives them: the lines of one, how each was reviewed, and where one is in it.
import { address, episodePath, get } from "../base/api.js";
import { number } from "../base/format.js";
import { getComputed } from "../base/jobs.js";
import { linesOf, progressOf } from "../model/queue_lines.js";

/** @typedef {import("../base/api.js").Json} Json */
/** @typedef {{ queue: string, q: string | null, label: string | null, left: string | null, right: string | null, space: string | null, pieces: string | null }} Queue */

const MOST = 1000; // lines of a queue
const AT_ONCE = 250; // episodes whose states one request asks for
const STATES = ["uid", "name", "review", "tags", "score.rating"];

/** The queue that an address names. @param {URLSearchParams} state @param {string} queue @returns {Queue} */
export function queueOf(state, queue) {
  const [q, label, left, right, space, pieces] = ["q", "label", "left", "right", "space", "pieces"].map((name) => state.get(name));
  return { queue, q, label, left, right, space, pieces };
}

/** The page of a line's episode, which knows the queue that it is one of. @param {Queue} queue @param {string} uid @param {number} at */
export function lineAddress(queue, uid, at) {
  return address(episodePath(uid), { ...queue, at });
}

/** What remembers where one is in a queue, in this browser. @param {Queue} queue */
function placeName(queue) {
  return `wshard-queue:${document.body.dataset.archive}:${JSON.stringify(queue)}`;
}

/** @param {Queue} queue @returns {number} */
export function placeIn(queue) {
  return Number(localStorage.getItem(placeName(queue))) || 0;
}

/** @param {Queue} queue @param {number} at */
export function keepPlace(queue, at) {
  localStorage.setItem(placeName(queue), String(at));
}

/**
 * The lines of a queue, once it is computed, and what is said of it.
 * @param {Queue} queue
 * @param {(text: string) => void} onProgress
 * @param {{ fresh?: boolean, signal?: AbortSignal }} [options]
 * @returns {Promise<Json>}
 */
export async function fetchQueue(queue, onProgress, { fresh = false, signal } = {}) {
  const { queue: name, q, ...others } = queue;
  const found = name === "flagged" ? await fetchFlagged(queue, signal) : await getComputed(
    `/api/queues/${name}`, { ...others, where: q }, { fresh: fresh || null }, (job) => onProgress(progressOf(job)), signal);
  return { ...found, items: linesOf(name, found.items) };
}

/** @param {Queue} queue @param {AbortSignal} [signal] @returns {Promise<Json>} */
async function fetchFlagged(queue, signal) {
  const where = `flag:* ${queue.q || ""}`.trim();
  const page = await get("/api/episodes", { where, limit: MOST, sort: "-ingested_at", columns: ["uid", "episode_id", "env", "flag"] }, signal);
  return { items: page.items.map((/** @type {Json} */ row) => ({ ...row, env_id: row.env, reason: row.flag.join(", ") })), total: page.total };
}

/**
 * Let lines know the names of their episodes, and how these are reviewed by now.
 * @param {Json[]} items
 * @param {string[]} [labels] further fields that they show
 */
export async function fetchStates(items, labels = []) {
  const uids = [...new Set(items.flatMap((item) => [item.uid, ...(item.other ? [item.other.uid] : [])]))];
  const parts = Array.from({ length: Math.ceil(uids.length / AT_ONCE) }, (_, part) => uids.slice(AT_ONCE * part, AT_ONCE * (part + 1)));
  const pages = await Promise.all(parts.map((part) =>
    get("/api/episodes", { where: `uid:${part.join(",")}`, limit: AT_ONCE, columns: [...STATES, ...labels], count: false })));
  const states = new Map(pages.flatMap((page) => page.items.map((/** @type {Json} */ row) => [row.uid, row])));
  for (const item of items) {
    Object.assign(item, states.get(item.uid));
    if (item.other) Object.assign(item.other, states.get(item.other.uid));
  }
}

/** The place of the next line without a review, or -1. @param {Json[]} items @param {number} at */
export function nextUnreviewed(items, at) {
  return items.findIndex((one, place) => place > at && !one.review);
}

/** How many of the lines are reviewed. @param {Json[]} items */
export function reviewedOf(items) {
  const count = items.filter((item) => item.review).length;
  return { count, text: count === items.length ? `all ${number(count)} reviewed` : `${number(count)} of ${number(items.length)} reviewed` };
}
