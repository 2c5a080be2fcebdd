// Review queues as the server gives them: the lines of one, how each was reviewed, and where one is in it.
import { address, episodePath, get } from "../base/api.js";
import { number } from "../base/format.js";
import { linesOf, progressOf } from "../model/queue_lines.js";

/** @typedef {import("../base/api.js").Json} Json */
/** @typedef {{ queue: string, q: string | null, label: string | null, left: string | null, right: string | null, space: string | null, pieces: string | null }} Queue */

const POLL_MS = 400;
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
 * The lines of a queue, once it is computed, and what is said of it; null where nobody waits for them any more.
 * @param {Queue} queue
 * @param {{ fresh?: boolean, onProgress?: (text: string) => void, isWanted?: () => boolean }} [options]
 * @returns {Promise<Json | null>}
 */
export async function fetchQueue(queue, { fresh = false, onProgress = () => {}, isWanted = () => true } = {}) {
  const found = queue.queue === "flagged" ? await fetchFlagged(queue) : await waitFor(queue, fresh, onProgress, isWanted);
  return found && { ...found, items: linesOf(queue.queue, found.items) };
}

/** @param {Queue} queue @returns {Promise<Json>} */
async function fetchFlagged(queue) {
  const where = `flag:* ${queue.q || ""}`.trim();
  const page = await get("/api/episodes", { where, limit: MOST, sort: "-ingested_at", columns: ["uid", "episode_id", "env", "flag"] });
  return { items: page.items.map((/** @type {Json} */ row) => ({ ...row, env_id: row.env, reason: row.flag.join(", ") })), total: page.total };
}

/** @param {Queue} queue @param {boolean} fresh @param {(text: string) => void} onProgress @param {() => boolean} isWanted @returns {Promise<Json | null>} */
async function waitFor({ queue, q, ...asked }, fresh, onProgress, isWanted) {
  for (let first = true; isWanted(); first = false) {
    const found = await get(`/api/queues/${queue}`, { ...asked, where: q, fresh: first && fresh ? true : null });
    if (!found.job) return found;
    let { job } = found;
    while (isWanted() && (job.state === "waiting" || job.state === "running")) {
      onProgress(progressOf(job));
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      job = await get(`/api/jobs/${job.id}`);
    }
    if (job.state === "failed") throw new Error(job.error);
  }
  return null;
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
