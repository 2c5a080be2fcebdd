// Exports: episodes in another format, converted by a background job, with its progress and its download.
import { get, post, remove } from "../base/api.js";
import { cancelButton, labelled, openDialog, reasonOf } from "../base/dialogs.js";
import { fill, h, withCode } from "../base/dom.js";
import { number, plural } from "../base/format.js";

/** @typedef {import("../base/api.js").Json} Json */

const POLL_MS = 400;

/**
 * Ask for format and name, and export.
 * @param {{ collection: string } | import("./annotations.js").Target} target
 * @param {string} what
 */
export async function askExport(target, what) {
  const format = h("select", { "aria-label": "Format", autofocus: true }, h("option", {}, "loading …"));
  const name = h("input", { type: "text", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,99}", value: suggested(target), title: "letters, digits, _ and -" });
  const without = h("input", { type: "text", placeholder: "none" });
  const limits = h("div", { class: "soft" });
  const result = h("div", { class: "export", "aria-live": "polite" });
  const button = h("button", { class: "primary", disabled: true }, `Export ${what}`);
  const attempt = async (/** @type {() => Promise<unknown>} */ run) => {
    try {
      await run();
    } catch (error) {
      fill(result, h("p", { class: "problem" }, reasonOf(error)));
    }
  };
  const form = h("form", {
    onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      void attempt(async () => follow(await post("/api/exports", { ...target, format: format.value, name: name.value.trim(), without: without.value.split(",").map((/** @type {string} */ one) => one.trim()).filter(Boolean) }), result, () => result.isConnected));
    },
  }, labelled("Format", format), limits, labelled("Name", name, "It is written into the folder .exports of the archive, and can be downloaded from here."),
  labelled("Leave out", without, "Lanes that are not exported, separated by commas: those that the format cannot hold, or that some episodes lack"),
  h("div", { class: "actions" }, cancelButton(), button), result);
  openDialog(`Export ${what}`, form);
  await attempt(async () => {
    const { items } = await get("/api/formats");
    fill(format, items.map((/** @type {Json} */ one) => h("option", { value: one.format }, `${one.format}: ${one.about}`)));
    const show = () => {
      const chosen = items.find((/** @type {Json} */ one) => one.format === format.value);
      limits.hidden = !chosen.cannot_hold.length;
      fill(limits, h("p", {}, "It cannot hold:"), h("ul", {}, chosen.cannot_hold.map((/** @type {string} */ one) => h("li", {}, one))));
    };
    format.addEventListener("change", show);
    show();
    button.disabled = false;
  });
}

/** @param {{ collection: string } | import("./annotations.js").Target} target */
function suggested(target) {
  const from = "collection" in target ? String(target.collection) : "episodes";
  return from.replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 60) || "export";
}

/**
 * Show a job until it ends, or until nobody looks any more.
 * @param {Json} job
 * @param {HTMLElement} place
 * @param {() => boolean} looked
 */
async function follow(job, place, looked) {
  for (let now = job; ; now = await get(`/api/jobs/${job.id}`)) {
    fill(place, ...jobProgress(now), ...exportResult(now));
    if (!isRunning(now) || !looked()) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** @param {Json} job */
export function isRunning(job) {
  return job.state === "running" || job.state === "waiting";
}

/** How far a job is, with what stops it. @param {Json} job @returns {(Node | string)[]} */
export function jobProgress(job) {
  const bar = job.total > 0 && h("progress", { max: job.total, value: job.done, "aria-label": job.what || job.kind });
  const stop = h("button", { class: "change", type: "button", onclick: () => void remove(`/api/jobs/${job.id}`) }, "Stop");
  const state = job.result?.failures ? "ended with failures" : job.state;
  return [h("p", {}, h("strong", {}, job.kind), ` ${state} `, isRunning(job) && bar,
    isRunning(job) && ` ${job.what} ${job.total ? `${number(job.done)} of ${number(job.total)}` : ""} `, isRunning(job) && stop),
  job.error ? h("p", { class: "problem" }, withCode(job.error)) : ""];
}

/** What an export wrote and what it could not write, and its download. @param {Json} job @returns {(Node | string)[]} */
export function exportResult(job) {
  const found = job.result;
  if (!job.kind.startsWith("export ") || !found) return [];
  const written = [plural(found.timesteps, "timestep"), " in ", h("code", {}, found.location)];
  const more = found.failed.reduce((/** @type {number} */ left, /** @type {Json} */ one) => left - one.episodes, found.failures);
  return [
    found.failures
      ? h("p", { class: "warning" }, h("strong", {}, `${number(found.episodes)} of ${number(found.episodes + found.failures)} written, ${number(found.failures)} failed`), found.episodes > 0 && [": ", ...written])
      : h("p", { class: "yes" }, `${plural(found.episodes, "episode")}, `, ...written),
    found.failures ? h("ul", { "aria-label": "Not written" },
      found.failed.map((/** @type {Json} */ one) => h("li", { class: "problem" }, `${one.episode}${one.episodes > 1 ? ` and ${number(one.episodes - 1)} more` : ""}: ${one.message}`)),
      more > 0 && h("li", {}, `and ${number(more)} more`)) : "",
    found.failures ? h("p", {}, found.format === "wshard" ? "" : "Choose another format, such as wshard, which holds any episode, or export fewer episodes. ", "The same name and format again add what is missing.") : "",
    found.episodes ? h("p", {}, h("a", { href: `/api/exports/${job.id}/file`, download: "" }, "Download")) : "",
    h("ul", {}, found.losses.map((/** @type {Json} */ one) => h("li", {}, `not in it: ${one.loss} (${plural(one.episodes, "episode")})`))),
  ];
}
