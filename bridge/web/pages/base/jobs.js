// Work that the server does in the background.
import { get } from "./api.js";

/** @typedef {import("./api.js").Json} Json */

const POLL_MS = 400;

/**
 * Wait for the end of a job. Raises its error.
 * @param {Json} job
 * @param {(job: Json) => void} onProgress
 * @param {AbortSignal} signal
 */
export async function waitForJob(job, onProgress, signal) {
  let now = job;
  while (now.state === "waiting" || now.state === "running") {
    onProgress(now);
    await new Promise((then) => { setTimeout(then, POLL_MS); });
    now = await get(`/api/jobs/${job.id}`, {}, signal);
  }
  if (now.state !== "done") throw new Error(now.error || "the job was stopped");
}
