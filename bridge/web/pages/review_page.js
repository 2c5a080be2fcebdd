// Review queues: what checks and neighbours doubt, one episode after another; each remembers where one was.
import { address, get, isAborted, readLabels } from "./base/api.js";
import { reasonOf } from "./base/dialogs.js";
import { ended, fill, h, say, withCode } from "./base/dom.js";
import { plural } from "./base/format.js";
import { onChangeKey, onKey } from "./base/keys.js";
import { readState, writeState } from "./base/url_state.js";
import { afterChange, askNote, askReview, askTag, rate, review, STATES, tag, undoLast } from "./components/annotations.js";
import { column, fitting } from "./components/columns.js";
import { fetchQueue, fetchStates, keepPlace, lineAddress, nextUnreviewed, placeIn, queueOf, reviewedOf } from "./queues/queue.js";
import { makeShell } from "./components/shell.js";
import { offerSpaces } from "./components/spaces.js";
import { EpisodeTable } from "./components/table.js";
import { Thumbnails } from "./components/thumbnails.js";
import { titleOf } from "./model/field_names.js";
import { textOf } from "./model/labels.js";
import { cutOf, nameOf, QUEUES } from "./model/queue_lines.js";

/** @typedef {import("./base/api.js").Json} Json */

const RANKED = ["outliers", "mislabeled"]; // by distances in one Space
const PAIRED = ["duplicates", "leaks"]; // which are compared in all Spaces

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
    this.empty = h("p", { class: "empty", hidden: true });
    this.thumbnails = new Thumbnails(() => this.table.draw());
    this.table = new EpisodeTable({
      fetchRows: async (offset, limit) => this.items.slice(offset, offset + limit),
      onOpen: () => this.open(),
      onSort: () => {},
      onShown: (rows) => void this.thumbnails.fetch(rows.map((row) => row.uid)),
      onCurrent: (_, index) => { if (this.items.length) keepPlace(this.asked, index); },
      isSelected: () => false,
      onSelect: () => {},
    });
    /** @type {Json[]} one per line: an episode, with what is said of it, and how it was reviewed */
    this.items = [];
    /** @type {Map<number | undefined, number>} the line of each decision, by its number for undoing */
    this.decided = new Map();
    this.control = new AbortController();
    /** @type {string[]} */
    this.labels = [];
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
    void get("/api/fields").then(({ example }) => {
      this.example = example;
      this.controls.querySelector("[name=q]")?.setAttribute("placeholder", this.hint); // what is typed meanwhile stays
    }, () => {});
    [this.labels] = await Promise.all([readLabels(), offerSpaces(this.space)]);
    await this.load();
    this.table.element.focus({ preventScroll: true });
  }

  bindKeys() {
    onKey("k", "previous", () => this.table.move(-1));
    onKey("Enter", "open the episode", () => this.open());
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

  get hint() {
    return this.example ? `such as ${this.example}` : "filter";
  }

  /** What the address and the list of Spaces ask for. */
  get asked() {
    const asked = queueOf(readState(), this.queue);
    return { ...asked, space: RANKED.includes(this.queue) ? this.space.value || null : null };
  }

  /** @param {boolean} [fresh] */
  async load(fresh = false) {
    this.control.abort();
    this.control = new AbortController();
    const { signal } = this.control;
    const state = readState();
    fill(this.tabs, Object.entries(QUEUES).map(([name, { title }]) =>
      h("a", { href: address("/review", { queue: name, q: state.get("q") }), "aria-current": name === this.queue ? "page" : false }, title)));
    this.drawControls();
    this.items = [];
    this.decided.clear();
    this.show(0);
    this.empty.hidden = true;
    if (this.queue === "leaks" && !(state.get("left") && state.get("right"))) {
      fill(this.status, "Name two sets, such as training and test data: episodes of one that are copies of episodes of the other are listed.");
      return;
    }
    fill(this.status, "searching …");
    try {
      const found = await fetchQueue(this.asked, (text) => fill(this.status, text), { fresh, signal });
      this.items = found.items;
      const others = this.asked.space === null ? 0 : this.space.options.length - 1;
      fill(this.status, QUEUES[this.queue].about, " ", cutOf(this.queue, found),
        others > 0 && ` Only episodes of one Space are compared, ${this.space.selectedOptions[0]?.text}; choose from ${plural(others, "other")} above.`,
        found.stale && " The archive has changed since. ",
        found.stale && h("button", { class: "change", onclick: () => void this.load(true) }, "Compute again"));
      fill(this.empty, withCode(`Nothing is in this queue. ${QUEUES[this.queue].none}`));
      this.empty.hidden = this.items.length > 0;
      this.show(placeIn(this.asked));
      await this.loadStates();
    } catch (error) {
      if (!isAborted(error)) fill(this.status, h("span", { class: "problem" }, withCode(reasonOf(error))));
    }
  }

  /** Draw the lines anew. @param {number} at */
  show(at) {
    const { why } = QUEUES[this.queue];
    const isPair = this.items.some((item) => item.other);
    this.table.element.hidden = this.actions.hidden = !this.items.length;
    this.table.setColumns(fitting([
      { name: "lanes", title: "Lanes", width: "140px", cell: (row) => this.thumbnails.draw(row.uid) },
      { name: "episode", title: "Episode", width: "minmax(130px, 1.6fr)", pinned: true, cell: (row, index) => ended("a", { href: lineAddress(this.asked, row.uid, index), tabindex: -1 }, nameOf(row)) },
      ...this.labels.map((name) => ({ name, title: titleOf(name), width: "minmax(110px, 1fr)", cell: (/** @type {Json} */ row) => h("span", { title: textOf(row, name) }, textOf(row, name)) })),
      { name: "why", title: why, width: "minmax(112px, 1.4fr)", cell: (row) => h("span", { title: row.said }, row.said) },
      ...(isPair ? [{ name: "other", title: "Compare with", width: "minmax(116px, 1.4fr)", cell: (/** @type {Json} */ row) =>
        ended("a", { href: address("/compare", { of: [row.other.uid, row.uid] }), tabindex: -1, title: "both on one clock" }, nameOf(row.other)) }] : []),
      { name: "review", title: "Review", width: "88px", cell: (row) => column("review").cell(row, 0) },
      { name: "marks", title: "Tags, rating", width: "minmax(110px, 1fr)", cell: (row) => h("span", {}, column("tags").cell({ tags: row.tags || [] }, 0), column("score.rating").cell({ "score.rating": row["score.rating"] ?? null }, 0)) },
    ], window.innerWidth, this.labels), "");
    this.table.reset(this.items.length, this.items.slice(0, this.table.blocks.size), false);
    if (this.items.length) this.table.goTo(at);
  }

  drawControls() {
    const state = readState();
    const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ hint) =>
      h("label", {}, label, h("input", { type: "text", name, value: state.get(name) || "", placeholder: hint }));
    fill(this.controls,
      this.queue === "leaks"
        ? [field("left", "first set", "collection or filter"), field("right", "second set", "collection or filter")]
        : field("q", "filter", this.hint),
      this.queue === "mislabeled" && field("label", "label", this.labels[0] ?? "env"),
      this.asked.space !== null && this.space,
      PAIRED.includes(this.queue) && h("label", { title: "episodes cut out of others, or spliced: needs windows, and takes longer" },
        h("input", { type: "checkbox", name: "pieces", value: "1", checked: state.has("pieces") }), "also pieces of episodes"),
      h("button", {}, "Load"));
    this.controls.onsubmit = (event) => {
      event.preventDefault();
      const values = { pieces: "", ...Object.fromEntries(new FormData(this.controls)) };
      writeState(/** @type {Record<string, string>} */ (values), { push: true });
      void this.load();
    };
  }

  /** How the episodes of the queue are reviewed by now. */
  async loadStates() {
    const { signal } = this.control;
    await fetchStates(this.items, this.labels);
    if (signal.aborted) return;
    const { count, text } = reviewedOf(this.items);
    this.bar.max = Math.max(1, this.items.length);
    this.bar.value = count;
    fill(this.done, text);
    this.table.draw();
  }

  /** Review the episode one is at, and go to the next that is not reviewed. @param {string} state */
  async decide(state) {
    const at = this.table.current;
    const item = this.items[at];
    if (!item) return;
    fill(this.problem);
    try {
      this.decided.set(await review({ episodes: [item.uid] }, state), at);
    } catch (error) {
      fill(this.problem, reasonOf(error));
      return;
    }
    item.review = state;
    const next = nextUnreviewed(this.items, at);
    this.table.goTo(next < 0 ? at : next);
  }

  /** Undo the last change, and go back to the line that it decided on. */
  async undo() {
    const at = this.decided.get(await undoLast());
    if (at !== undefined) this.table.goTo(at);
  }

  /** Open the episode one is at; its page goes on with the queue. */
  open() {
    this.with((uid) => location.assign(lineAddress(this.asked, uid, this.table.current)));
  }

  /** @param {(uid: string) => void} act */
  with(act) {
    const item = this.items[this.table.current];
    if (item) act(item.uid);
    else say("the queue is empty");
  }
}
