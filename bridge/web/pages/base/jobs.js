// Work that the server does in the background.
import { get } from "./api.js";

/** @typedef {import("./api.js").Json} Json */

const POLL_MS = 400;

/**
 * Get what a job computes first, if the server does not have it. Raises the error of the job, also if it is stopped.
 * @param {string} path
 * @param {Record<string, unknown>} query
 * @param {Record<string, unknown>} first what only the first request says
 * @param {(job: Json) => void} onProgress
 * @param {AbortSignal} [signal]
 * @returns {Promise<Json>}
 */
export async function getComputed(path, query, first, onProgress, signal) {
  let found = await get(path, { ...query, ...first }, signal);
  while (found.job) {
    await waitForJob(found.job, onProgress, signal);
    found = await get(path, query, signal);
  }
  return found;
}

/**
 * Wait for the end of a job. Raises its error.
 * @param {Json} job
 * @param {(job: Json) => void} onProgress
 * @param {AbortSignal} [signal]
 */
async function waitForJob(job, onProgress, signal) {
  let now = job;
  while (now.state === "waiting" || now.state === "running") {
    onProgress(now);
    await new Promise((then) => { setTimeout(then, POLL_MS); });
    now = await get(`/api/jobs/${job.id}`, {}, signal);
  }
  if (now.state !== "done") throw new Error(now.error || "the job was stopped");
}
