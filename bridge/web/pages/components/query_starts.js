// What a search begins with, where the page has no query yet: an episode, a file, a drawing, or words.
import { address, get, readLabels, upload } from "../base/api.js";
import { debounce, fill, h } from "../base/dom.js";
import { plural } from "../base/format.js";
import { quoteValue } from "../model/filter_text.js";
import { labelOf } from "../model/labels.js";
import { nameOf } from "../model/queue_lines.js";
import { DrawingPad } from "./drawing_pad.js";
import { Thumbnails } from "./thumbnails.js";

/** @typedef {import("../base/api.js").Json} Json */

const OFFERED = 6;

/** A link to the search for episodes like one. @param {string} uid @param {string} name */
export function similarLink(uid, name) {
  return h("a", { class: "button", href: address("/search", { query: uid }), tabindex: -1, title: `Find episodes similar to ${name}` }, "Find similar");
}

export class QueryStarts {
  /** @param {{ onQuery: (uid: string) => void, onWords: () => void }} listeners */
  constructor(listeners) {
    this.listeners = listeners;
    this.name = h("input", { type: "search", "aria-label": "Name of an episode", placeholder: "part of its name", oninput: debounce(200, () => void this.offer()) });
    this.list = h("ul", { class: "offered" });
    /** @type {string[] | undefined} */
    this.labels = undefined;
    /** @type {Json[]} */
    this.offered = [];
    this.thumbnails = new Thumbnails(() => this.drawList());
    this.problem = h("p", { class: "problem", role: "alert" });
    this.file = h("input", { type: "file", accept: ".npz,.npy,.csv,.wshard,image/*", "aria-label": "File of a query", onchange: () => void this.take(this.file.files?.[0]) });
    this.pad = new DrawingPad((file) => this.take(file));
    const drop = h("section", {
      "aria-label": "Upload or draw",
      ondragover: (/** @type {Event} */ event) => event.preventDefault(),
      ondrop: (/** @type {DragEvent} */ event) => { event.preventDefault(); void this.take(event.dataTransfer?.files[0]); },
    }, h("h2", {}, "Drop a file or a picture, or draw"),
    h("p", { class: "soft" }, "A picture of what a camera saw, a recording (.wshard), or arrays [timesteps, channels] (.npz, .npy, .csv). It is kept only for searches."),
    this.file, this.problem,
    h("details", { ontoggle: () => { if (!this.pad.drawing.channels.length) void this.pad.begin().catch((error) => this.report(error)); } },
      h("summary", {}, "Draw one"), this.pad.element));
    this.element = h("div", { class: "starts" },
      h("section", { "aria-label": "Pick an episode" }, h("h2", {}, "Pick an episode"), this.name, this.list,
        h("a", { href: "/" }, "All episodes, with facets and filters")),
      drop,
      h("section", { "aria-label": "Type words" }, h("h2", {}, "Type words"),
        h("p", { class: "soft" }, "Of tasks, other metadata and notes. Words, examples and a filter can be combined; in the list, the button Find similar of each episode leads here, too."),
        h("button", { onclick: () => listeners.onWords() }, "Type words")));
  }

  /** Offer episodes of which the name contains what was typed. */
  async offer() {
    const text = this.name.value.trim();
    const where = text ? `episode:*${quoteValue(text)}*` : "";
    const sort = text ? "episode_id" : "uid"; // without a name some of all kinds
    this.labels ??= await readLabels();
    const found = await get("/api/episodes", { where, sort, limit: OFFERED, columns: ["uid", "name", "length", ...this.labels], count: false }).catch(() => ({ items: [] }));
    this.offered = found.items;
    this.drawList();
    void this.thumbnails.fetch(this.offered.map((one) => one.uid));
  }

  drawList() {
    fill(this.list, this.offered.map((one) => h("li", {},
      h("a", { href: address("/search", { query: one.uid }) }, this.thumbnails.draw(one.uid), h("span", {}, nameOf(one), h("small", { class: "soft" }, ` ${[labelOf(one, this.labels ?? []), plural(one.length, "timestep")].filter(Boolean).join(" · ")}`))))),
    !this.offered.length && h("li", { class: "soft" }, "no episode has such a name"));
  }

  /** @param {unknown} error */
  report(error) {
    this.problem.textContent = error instanceof Error ? error.message : String(error);
  }

  /** @param {File | undefined} file */
  async take(file) {
    if (!file) return;
    this.problem.textContent = "";
    try {
      const { uid } = await upload("/api/queries", file);
      this.listeners.onQuery(uid);
    } catch (error) {
      this.report(error);
    } finally {
      this.file.value = "";
    }
  }
}
