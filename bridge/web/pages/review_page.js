// Review queues: what checks and neighbours doubt, one episode after another; each remembers where one was.
import { address, episodePath, get } from "./base/api.js";
import { reasonOf } from "./base/dialogs.js";
import { fill, h, say } from "./base/dom.js";
import { number } from "./base/format.js";
import { onChangeKey, onKey } from "./base/keys.js";
import { readState, writeState } from "./base/url_state.js";
import { afterChange, askNote, askReview, askTag, rate, review, STATES, tag, undoLast } from "./components/annotations.js";
import { column } from "./components/columns.js";
import { makeShell } from "./components/shell.js";
import { offerSpaces } from "./components/spaces.js";
import { EpisodeTable } from "./components/table.js";
import { Thumbnails } from "./components/thumbnails.js";
import { cutOf, linesOf, progressOf, QUEUES } from "./model/queue_lines.js";

/** @typedef {import("./base/api.js").Json} Json */

const POLL_MS = 400;
const AT_ONCE = 250; // episodes whose states one request asks for

export function showReview() {
  void new ReviewPage().begin();
}

class ReviewPage {
  constructor() {
    this.main = makeShell("Review");
    this.main.classList.add("review");
    this.tabs = h("nav", { class: "tabs", "aria-label": "Queues" });
    this.controls = h("form", { class: "controls" });
    this.space = h("select", { "aria-label": "Space", onchange: () => { writeState({ space: this.space.value }, { push: true }); void this.load(); } });
    this.status = h("p", { class: "count", role: "status" });
    this.bar = h("progress", { "aria-label": "Reviewed", value: 0 });
    this.done = h("span", {});
    this.problem = h("span", { class: "problem", role: "alert" });
    this.actions = h("div", { class: "bar-actions", role: "toolbar", "aria-label": "Decide about the marked episode", hidden: true });
    this.empty = h("p", { class: "empty", hidden: true }, "Nothing is in this queue.");
    this.thumbnails = new Thumbnails(() => this.table.draw());
    this.table = new EpisodeTable({
      fetchRows: async (offset, limit) => this.items.slice(offset, offset + limit),
      onOpen: (row) => location.assign(episodePath(row.uid)),
      onSort: () => {},
      onShown: (rows) => void this.thumbnails.fetch(rows.map((row) => row.uid)),
      onCurrent: (_, index) => { if (this.items.length) localStorage.setItem(this.place, String(index)); },
      isSelected: () => false,
      onSelect: () => {},
    });
    /** @type {Json[]} one per line: an episode, with what is said of it, and how it was reviewed */
    this.items = [];
    /** @type {number[]} the lines that were decided on, for undoing */
    this.decided = [];
    this.round = 0;
    this.example = "";
  }

  async begin() {
    fill(this.main, h("h1", {}, "Review"), this.tabs, this.controls, this.status, this.actions,
      h("div", { class: "queue" }, this.table.element, this.empty));
    this.bindKeys();
    this.drawActions();
    afterChange(() => void this.loadStates());
    window.addEventListener("popstate", () => void this.load());
    window.addEventListener("themechange", () => this.table.draw());
    void get("/api/fields").then(({ example }) => { this.example = example; this.drawControls(); }, () => {});
    await offerSpaces(this.space);
    await this.load();
    this.table.element.focus({ preventScroll: true });
  }

  bindKeys() {
    onKey("k", "previous", () => this.table.move(-1));
    onKey("Enter", "open the episode", () => this.with((uid) => location.assign(episodePath(uid))));
    onChangeKey("r", "review, with any state", () => this.with((uid) => askReview({ episodes: [uid] })));
    for (const value of [1, 2, 3, 4, 5]) onChangeKey(String(value), `rate ${"★".repeat(value)}`, () => this.with((uid) => void rate([uid], value)));
  }

  /** The buttons, each with its key. */
  drawActions() {
    const action = (/** @type {string} */ key, /** @type {string} */ label, /** @type {string} */ about, /** @type {() => void} */ act) => {
      onChangeKey(key, about, act);
      return h("button", { class: "change", title: about, onclick: act }, label, " ", h("kbd", {}, key));
    };
    const ask = (/** @type {(target: { episodes: string[] }) => void} */ act) => () => this.with((uid) => act({ episodes: [uid] }));
    onKey("j", "next", () => this.table.move(1));
    fill(this.actions,
      STATES.map(([key, state, label]) => action(key, label, `${state}, and go on`, () => void this.decide(state))),
      h("button", { title: "the next one, without a decision", onclick: () => this.table.move(1) }, "Skip ", h("kbd", {}, "j")),
      action("u", "Undo", "undo the last change", () => void this.undo()),
      h("span", { class: "gap" }),
      action("d", "Duplicate", "tag it duplicate", ask((target) => void tag(target, "duplicate"))),
      action("t", "Tag", "tag", ask(askTag)), action("n", "Note", "write a note", ask(askNote)),
      h("label", { class: "progress" }, this.bar, this.done), this.problem);
  }

  get queue() {
    const wanted = readState().get("queue") || "flagged";
    return wanted in QUEUES ? wanted : "flagged";
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
    fill(this.tabs, Object.entries(QUEUES).map(([name, { title }]) =>
      h("a", { href: address("/review", { queue: name, q: state.get("q") }), "aria-current": name === this.queue ? "page" : false }, title)));
    this.drawControls();
    this.items = [];
    this.decided = [];
    this.show(0);
    this.empty.hidden = true;
    if (this.queue === "leaks" && !(state.get("left") && state.get("right"))) {
      fill(this.status, "Name two sets, such as training and test data: episodes of one that are copies of episodes of the other are listed.");
      return;
    }
    fill(this.status, "searching …");
    try {
      const found = this.queue === "flagged" ? await this.flagged() : await this.wait(round, fresh);
      if (round !== this.round || !found) return;
      this.items = linesOf(this.queue, found.items);
      fill(this.status, QUEUES[this.queue].about, " ", cutOf(this.queue, found),
        found.stale && " The archive has changed since. ",
        found.stale && h("button", { class: "change", onclick: () => void this.load(true) }, "Compute again"));
      this.empty.hidden = this.items.length > 0;
      this.show(Number(localStorage.getItem(this.place)) || 0);
      await this.loadStates();
    } catch (error) {
      if (round === this.round) fill(this.status, h("span", { class: "problem" }, reasonOf(error)));
    }
  }

  /** Draw the lines anew. @param {number} at */
  show(at) {
    const { why } = QUEUES[this.queue];
    const isPair = this.items.some((item) => item.other);
    this.table.element.hidden = this.actions.hidden = !this.items.length;
    this.table.setColumns([
      { name: "lanes", title: "Lanes", width: "140px", cell: (row) => this.thumbnails.draw(row.uid) },
      { name: "episode", title: "Episode", width: "minmax(150px, 1.6fr)", cell: (row) => h("a", { href: episodePath(row.uid), tabindex: -1 }, row.episode_id || row.uid) },
      ...(this.items.some((item) => item.env_id) ? [{ name: "env", title: "Environment", width: "minmax(110px, 1fr)", cell: (/** @type {Json} */ row) => row.env_id }] : []),
      { name: "why", title: why, width: "minmax(130px, 1.4fr)", cell: (row) => h("span", { title: row.said }, row.said) },
      ...(isPair ? [{ name: "other", title: "Of", width: "minmax(150px, 1.4fr)", cell: (/** @type {Json} */ row) =>
        h("a", { href: address("/compare", { of: [row.other.uid, row.uid] }), tabindex: -1 }, `compare with ${row.other.episode_id}`) }] : []),
      { name: "review", title: "Review", width: "88px", cell: (row) => column("review").cell(row, 0) },
      { name: "marks", title: "Tags, rating", width: "minmax(110px, 1fr)", cell: (row) => h("span", {}, column("tags").cell({ tags: row.tags || [] }, 0), column("score.rating").cell({ "score.rating": row["score.rating"] ?? null }, 0)) },
    ], "");
    this.table.reset(this.items.length, this.items.slice(0, this.table.blocks.size), false);
    if (this.items.length) this.table.goTo(at);
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
    const example = this.example ? `such as ${this.example}` : "filter";
    fill(this.controls,
      this.queue === "leaks"
        ? [field("left", "first set", "collection or filter"), field("right", "second set", "collection or filter")]
        : field("q", "filter", example),
      this.queue === "mislabeled" && field("label", "label", "env"),
      this.queue !== "leaks" && this.queue !== "flagged" && this.space,
      h("button", {}, "Load"));
    this.controls.onsubmit = (event) => {
      event.preventDefault();
      const values = Object.fromEntries(new FormData(this.controls));
      writeState(/** @type {Record<string, string>} */ (values), { push: true });
      void this.load();
    };
  }

  /** How the episodes of the queue are reviewed by now. */
  async loadStates() {
    const { round } = this;
    const uids = [...new Set(this.items.map((item) => item.uid))];
    const parts = Array.from({ length: Math.ceil(uids.length / AT_ONCE) }, (_, part) => uids.slice(AT_ONCE * part, AT_ONCE * (part + 1)));
    const pages = await Promise.all(parts.map((part) =>
      get("/api/episodes", { where: `uid:${part.join(",")}`, limit: AT_ONCE, columns: ["uid", "review", "tags", "score.rating"], count: false })));
    if (round !== this.round) return;
    const states = new Map(pages.flatMap((page) => page.items.map((/** @type {Json} */ row) => [row.uid, row])));
    for (const item of this.items) Object.assign(item, states.get(item.uid));
    const count = this.items.filter((item) => item.review).length;
    this.bar.max = Math.max(1, this.items.length);
    this.bar.value = count;
    fill(this.done, count === this.items.length ? `all ${number(count)} reviewed` : `${number(count)} of ${number(this.items.length)} reviewed`);
    this.table.draw();
  }

  /** Review the episode one is at, and go to the next that is not reviewed. @param {string} state */
  async decide(state) {
    const at = this.table.current;
    const item = this.items[at];
    if (!item) return;
    fill(this.problem);
    try {
      await review({ episodes: [item.uid] }, state);
    } catch (error) {
      fill(this.problem, reasonOf(error));
      return;
    }
    item.review = state;
    this.decided.push(at);
    const next = this.items.findIndex((one, place) => place > at && !one.review);
    this.table.goTo(next < 0 ? at : next);
  }

  /** Undo the last change, and go back to what it was about. */
  async undo() {
    await undoLast();
    const at = this.decided.pop();
    if (at !== undefined) this.table.goTo(at);
  }

  /** @param {(uid: string) => void} act */
  with(act) {
    const item = this.items[this.table.current];
    if (item) act(item.uid);
    else say("the queue is empty");
  }
}
