// Review queues: what checks and neighbours doubt, one after another by keyboard; each remembers where one was.
import { address, episodePath, get } from "./base/api.js";
import { fill, h, say } from "./base/dom.js";
import { plural } from "./base/format.js";
import { onChangeKey, onKey } from "./base/keys.js";
import { readState, writeState } from "./base/url_state.js";
import { afterChange, askNote, askReview, askTag, rate, tag } from "./components/annotations.js";
import { makeShell } from "./components/shell.js";
import { offerSpaces } from "./components/spaces.js";
import { drawSparkline } from "./components/sparkline.js";
import { linesOf, progressOf } from "./model/queue_lines.js";

/** @typedef {import("./base/api.js").Json} Json */

const QUEUES = /** @type {Record<string, string>} */ ({
  flagged: "What checks found", duplicates: "Copies of one another", leaks: "In two sets at once",
  outliers: "Unlike all others", mislabeled: "Doubtful labels",
});
const POLL_MS = 400;

export function showReview() {
  void new ReviewPage().begin();
}

class ReviewPage {
  constructor() {
    this.main = makeShell("Review");
    this.main.classList.add("scrolled");
    this.tabs = h("nav", { class: "tabs", "aria-label": "Queues" });
    this.controls = h("form", { class: "controls" });
    this.space = h("select", { "aria-label": "Space", onchange: () => { writeState({ space: this.space.value }, { push: true }); void this.load(); } });
    this.status = h("p", { class: "count", role: "status" });
    this.list = h("ol", { class: "queue", tabindex: 0, "aria-label": "Episodes of the queue" });
    /** @type {Json[]} one per line: an episode, with what is said of it */
    this.items = [];
    this.at = 0;
    this.round = 0;
  }

  async begin() {
    fill(this.main, h("h1", {}, "Review"), this.tabs, this.controls, this.status, this.list);
    onKey("j", "next", () => this.move(1));
    onKey("k", "previous", () => this.move(-1));
    onKey("Enter", "open the episode", () => this.open());
    onChangeKey("r", "review", () => this.with((uid) => askReview({ episodes: [uid] })));
    onChangeKey("t", "tag", () => this.with((uid) => void askTag({ episodes: [uid] })));
    onChangeKey("n", "note", () => this.with((uid) => void askNote({ episodes: [uid] })));
    onChangeKey("d", "tag it duplicate", () => this.with((uid) => void tag({ episodes: [uid] }, "duplicate")));
    for (const value of [1, 2, 3, 4, 5]) onChangeKey(String(value), `rate ${"★".repeat(value)}`, () => this.with((uid) => void rate([uid], value)));
    afterChange(() => void this.loadStates());
    window.addEventListener("popstate", () => void this.load());
    await offerSpaces(this.space);
    await this.load();
    this.list.focus({ preventScroll: true });
  }

  get queue() {
    const asked = readState().get("queue") || "flagged";
    return asked in QUEUES ? asked : "flagged";
  }

  /** Where one was in this queue, by the browser. */
  get place() {
    return `wshard-queue:${document.body.dataset.archive}:${location.search}`;
  }

  /** @param {boolean} [fresh] */
  async load(fresh = false) {
    this.round += 1;
    const { round } = this;
    const state = readState();
    fill(this.tabs, Object.keys(QUEUES).map((name) =>
      h("a", { href: address("/review", { queue: name, q: state.get("q") }), "aria-current": name === this.queue ? "page" : false }, name)));
    this.drawControls();
    fill(this.list);
    if (this.queue === "leaks" && !(state.get("left") && state.get("right"))) {
      fill(this.status, "Name two sets, such as training and test data: episodes of one that are copies of episodes of the other are listed.");
      return;
    }
    fill(this.status, "searching …");
    try {
      const found = this.queue === "flagged" ? await this.flagged() : await this.wait(round, fresh);
      if (round !== this.round || !found) return;
      this.items = linesOf(this.queue, found.items);
      this.at = Math.min(Math.max(0, this.items.length - 1), Number(localStorage.getItem(this.place)) || 0);
      fill(this.status, QUEUES[this.queue], ": ", plural(found.total, this.queue === "duplicates" ? "group" : this.queue === "leaks" ? "pair" : "episode"),
        found.stale && " · the archive has changed since ",
        found.stale && h("button", { class: "change", onclick: () => void this.load(true) }, "Look again"));
      this.draw();
      await Promise.all([this.loadStates(), this.loadLanes()]);
    } catch (error) {
      if (round === this.round) fill(this.status, h("span", { class: "problem" }, error instanceof Error ? error.message : String(error)));
    }
  }

  /** @returns {Promise<Json>} */
  async flagged() {
    const where = `flag:* ${readState().get("q") || ""}`.trim();
    const page = await get("/api/episodes", { where, limit: 1000, sort: "-ingested_at", columns: ["uid", "episode_id", "env", "flag"] });
    return { items: page.items.map((/** @type {Json} */ row) => ({ ...row, env_id: row.env, reason: row.flag.join(", ") })), total: page.total };
  }

  /** @param {number} round @param {boolean} fresh @returns {Promise<Json | null>} */
  async wait(round, fresh) {
    const state = readState();
    const asked = { where: state.get("q"), label: state.get("label"), left: state.get("left"), right: state.get("right"), space: this.queue === "leaks" ? null : this.space.value };
    for (let first = true; round === this.round; first = false) {
      const found = await get(`/api/queues/${this.queue}`, { ...asked, fresh: first && fresh ? true : null });
      if (!found.job) return found;
      let { job } = found;
      while (round === this.round && (job.state === "waiting" || job.state === "running")) {
        fill(this.status, progressOf(job));
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        job = await get(`/api/jobs/${job.id}`);
      }
      if (job.state === "failed") throw new Error(job.error);
    }
    return null;
  }

  drawControls() {
    const state = readState();
    const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ hint) =>
      h("label", {}, label, h("input", { type: "text", name, value: state.get(name) || "", placeholder: hint }));
    fill(this.controls,
      this.queue === "leaks"
        ? [field("left", "first set", "collection or filter"), field("right", "second set", "collection or filter")]
        : field("q", "filter", "env:reach-v3"),
      this.queue === "mislabeled" && field("label", "label", "env"),
      this.queue !== "leaks" && this.queue !== "flagged" && this.space,
      h("button", {}, "Look"));
    this.controls.onsubmit = (event) => {
      event.preventDefault();
      const values = Object.fromEntries(new FormData(this.controls));
      writeState(/** @type {Record<string, string>} */ (values), { push: true });
      void this.load();
    };
  }

  draw() {
    fill(this.list, this.items.map((item, index) => h("li", {
      class: index === this.at ? "line current" : "line", "data-uid": item.uid,
      "aria-current": index === this.at ? "true" : false, onclick: () => this.goTo(index),
    },
    h("canvas", { class: "spark", "aria-hidden": "true" }),
    h("a", { href: episodePath(item.uid) }, item.episode_id || item.uid),
    h("span", { class: "soft" }, item.env_id),
    h("span", {}, item.said),
    item.other && h("a", { href: address("/compare", { of: [item.other.uid, item.uid] }) }, `compare with ${item.other.episode_id}`),
    h("span", { class: "state" }))));
    if (!this.items.length) fill(this.list, h("li", {}, "Nothing is in this queue."));
  }

  async loadStates() {
    const uids = [...new Set(this.items.map((item) => item.uid))].slice(0, 300);
    if (!uids.length) return;
    const where = `uid:${uids.join(",")}`;
    const page = await get("/api/episodes", { where, limit: 1000, columns: ["uid", "review", "tags", "score.rating"], count: false });
    const states = new Map(page.items.map((/** @type {Json} */ row) => [row.uid, row]));
    for (const line of this.list.querySelectorAll(".line")) {
      const row = states.get(/** @type {HTMLElement} */ (line).dataset.uid);
      const place = line.querySelector(".state");
      if (!row || !place) continue;
      line.classList.toggle("reviewed", Boolean(row.review));
      fill(place, row.review && h("span", { class: `tag state-${row.review}` }, row.review), row.tags.map((/** @type {string} */ name) => h("span", { class: "tag" }, name)), row["score.rating"] ? "★".repeat(row["score.rating"]) : "");
    }
  }

  async loadLanes() {
    const uids = [...new Set(this.items.map((item) => item.uid))].slice(0, 100);
    if (!uids.length) return;
    const found = await get("/api/series", { of: uids, points: 60, lanes: 1 });
    const series = new Map(found.items.map((/** @type {Json} */ one) => [one.uid, one.lanes[0]?.values || []]));
    for (const line of this.list.querySelectorAll(".line")) {
      const canvas = line.querySelector("canvas");
      if (canvas) drawSparkline(canvas, series.get(/** @type {HTMLElement} */ (line).dataset.uid) || [], { width: 120, height: 30 });
    }
  }

  /** @param {number} by */
  move(by) {
    this.goTo(this.at + by);
  }

  /** @param {number} index */
  goTo(index) {
    this.at = Math.max(0, Math.min(this.items.length - 1, index));
    localStorage.setItem(this.place, String(this.at));
    [...this.list.children].forEach((line, place) => {
      line.classList.toggle("current", place === this.at);
      if (place === this.at) {
        line.setAttribute("aria-current", "true");
        line.scrollIntoView({ block: "nearest" });
      } else line.removeAttribute("aria-current");
    });
  }

  open() {
    this.with((uid) => location.assign(episodePath(uid)));
  }

  /** @param {(uid: string) => void} act */
  with(act) {
    const item = this.items[this.at];
    if (item) act(item.uid);
    else say("the queue is empty");
  }
}
