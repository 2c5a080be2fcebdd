// Maintenance: what is stored, how it was embedded, what checks found, and long work with its progress.
import { get, post } from "./base/api.js";
import { fill, h, say } from "./base/dom.js";
import { number, plural, shown, size } from "./base/format.js";
import { exportResult, jobProgress } from "./components/exports.js";
import { makeShell } from "./components/shell.js";

/** @typedef {import("./base/api.js").Json} Json */

const POLL_MS = 700;
const FEW = 6; // folders that are named without being asked for
const KINDS = /** @type {[string, string][]} */ ([
  ["fsck", "Check files, catalog and vectors"], ["repair", "Repair what can be repaired"],
  ["health", "Health of the vectors"], ["ingest", "Ingest the known folders again"], ["watch", "Watch the known folders"],
]);

export function showMaintenance() {
  void new MaintenancePage().begin();
}

class MaintenancePage {
  constructor() {
    this.main = makeShell("Maintenance");
    this.main.classList.add("scrolled");
    this.known = "";
    this.jobs = h("section", { "aria-label": "Jobs" });
    this.storage = h("section", { "aria-label": "Storage" });
    this.spaces = h("section", { "aria-label": "Spaces" });
  }

  async begin() {
    const start = h("div", { class: "bar-actions change" }, KINDS.map(([kind, title]) =>
      h("button", { title, onclick: () => void this.start(kind) }, title)));
    fill(this.main, h("h1", {}, "Maintenance"), start, this.jobs, this.storage, this.spaces);
    void this.watch();
    const [storage, spaces] = await Promise.all([get("/api/storage"), get("/api/spaces")]);
    const sum = (/** @type {string} */ name) => storage.items.reduce((/** @type {number} */ total, /** @type {Json} */ one) => total + one[name], 0);
    fill(this.storage, h("h2", {}, "Storage"),
      h("p", {}, `${plural(sum("episodes"), "episode")}, ${plural(sum("timesteps"), "timestep")}, ${size(storage.bytes)} in files, ${size(storage.vector_bytes)} of vectors`),
      storage.roots.length > FEW
        ? h("details", { class: "soft" }, h("summary", {}, plural(storage.roots.length, "folder")), storage.roots.join(", "))
        : h("p", { class: "soft" }, "folders: ", storage.roots.join(", ")),
      storage.items.some((/** @type {Json} */ one) => one.env_id) && table([["environment"], ["episodes", number], ["timesteps", number], ["size", size]], storage.items.slice(0, 200).map((/** @type {Json} */ one) =>
        [one.env_id || "none", one.episodes, one.timesteps, one.bytes])));
    fill(this.spaces, h("h2", {}, "Spaces"),
      table([["embedder"], ["state"], ["lanes"], ["windows"], ["dim", number], ["episodes", number], ["vectors", number], ["size", size]], spaces.items.filter((/** @type {Json} */ one) => one.episodes > 0 || one.state !== "active").map((/** @type {Json} */ one) =>
        [one.embedder, one.state, one.lanes.join(", "), one.windows, one.dim, one.episodes, one.vectors, one.bytes])));
  }

  /** @param {string} kind */
  async start(kind) {
    try {
      await post("/api/jobs", { kind });
      await this.look();
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), { error: true });
    }
  }

  async watch() {
    if (!document.hidden) await this.look();
    setTimeout(() => void this.watch(), POLL_MS);
  }

  async look() {
    const found = await get("/api/jobs").catch(() => ({ items: [] }));
    const text = JSON.stringify(found.items);
    if (text === this.known) return;
    this.known = text;
    fill(this.jobs, h("h2", {}, "Jobs"),
      found.items.length ? found.items.slice(0, 12).map((/** @type {Json} */ job) => this.job(job)) : h("p", { class: "soft" }, "Nothing ran since the server started."));
  }

  /** What a job found: findings with their advice, or a table. @param {Json} result */
  found({ items, episodes }) {
    if (!items.length) return h("p", { class: "yes" }, `${plural(episodes ?? 0, "episode")} checked: no problems found`);
    if (!items[0].code) {
      const columns = Object.entries(items[0]).map(([name, value]) => /** @type {[string, typeof shown?]} */ ([name, typeof value === "number" ? shown : undefined]));
      return table(columns, items.slice(0, 50).map((/** @type {Json} */ one) => Object.values(one).map((value) => (typeof value === "string" ? value.replace(/, Space [0-9a-f]+$/, "") : value))));
    }
    /** @type {Map<string, Json[]>} those with the same reason together */
    const groups = new Map();
    for (const one of /** @type {Json[]} */ (items)) {
      const reason = `${one.code} ${one.seen ? one.where : one.message.replace(/^(no such file): .*/, "$1")}`;
      groups.set(reason, [...(groups.get(reason) ?? []), one]);
    }
    return h("ul", {}, [...groups.values()].slice(0, 50).map((/** @type {Json[]} */ [one, ...others]) =>
      h("li", {}, h("span", { class: "flag" }, one.code), ` ${one.where}`, others.length > 0 && h("strong", {}, ` and ${number(others.length)} more`), `: ${one.message} `, h("span", { class: "soft" }, one.advice))));
  }

  /** @param {Json} job */
  job(job) {
    return h("article", { class: `job ${job.state}` },
      h("div", {}, ...jobProgress(job), job.who && h("small", { class: "soft" }, `by ${job.who}`)),
      ...exportResult(job),
      job.result?.items && this.found(job.result),
      job.result?.done?.length > 0 && h("p", {}, `repaired: ${job.result.done.join("; ")}`),
      job.result?.embedded !== undefined && h("p", {}, ["new", "changed", "moved", "unchanged", "missing", "embedded"].map((name) => `${name} ${job.result[name]}`).join(" · ")),
      job.result?.failed?.length > 0 && job.kind in { ingest: 1, watch: 1 } && h("ul", { "aria-label": "Failed files" }, job.result.failed.slice(-20).map((/** @type {Json} */ one) =>
        h("li", { class: "problem" }, `${one.address}: ${one.error}`))));
  }
}

/**
 * A table; columns with a way to write their values stand right.
 * @param {[string, ((value: any) => string)?][]} columns
 * @param {unknown[][]} rows
 */
function table(columns, rows) {
  const side = columns.map(([, write]) => (write ? "right" : false));
  return h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, columns.map(([name], place) => h("th", { scope: "col", class: side[place] }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value, place) => h("td", { class: side[place] }, (columns[place][1] ?? shown)(value)))))));
}
