// Collections: list, look into, compare, split, take the list of files along.
import { address, get, post, remove } from "./base/api.js";
import { fill, h, say } from "./base/dom.js";
import { plural } from "./base/format.js";
import { askText, confirmed, openDialog } from "./base/keys.js";
import { askExport } from "./components/exports.js";
import { makeShell } from "./components/shell.js";
import { quoteValue } from "./model/filter_text.js";

/** @typedef {import("./base/api.js").Json} Json */

export function showCollections() {
  void new CollectionsPage().load();
}

class CollectionsPage {
  constructor() {
    this.main = makeShell("Collections");
    this.main.classList.add("scrolled");
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.difference = h("section", { class: "difference", "aria-live": "polite" });
  }

  async load() {
    const found = await get("/api/collections");
    const rows = found.items.map((/** @type {Json} */ one) => h("tr", {},
      h("td", {}, h("input", { type: "checkbox", "aria-label": `Choose ${one.name}`, onchange: () => this.choose(one.name) })),
      h("td", {}, h("a", { href: address("/", { q: `collection:${quoteValue(one.name)}` }) }, one.name)),
      h("td", {}, one.snapshot ? plural(one.snapshot.picks, "pick") : h("code", {}, one.query || "everything")),
      h("td", {}, one.snapshot ? h("code", {}, one.snapshot.hash.slice(0, 12)) : "live"),
      h("td", {}, one.who), h("td", {}, one.at.slice(0, 16).replace("T", " ")),
      h("td", { class: "actions" },
        h("a", { href: `/api/collection-lists/${encodeURIComponent(one.name)}?form=csv`, download: `${one.name}.csv` }, "csv"),
        h("a", { href: `/api/collection-lists/${encodeURIComponent(one.name)}?form=json`, download: `${one.name}.json` }, "json"),
        h("button", { class: "change", onclick: () => void askExport({ collection: one.name }, one.name) }, "Export"),
        h("button", { class: "change", onclick: () => void this.split(one.name) }, "Split"),
        h("button", { class: "change", onclick: () => void this.drop(one.name) }, "Drop"))));
    fill(this.main, h("h1", {}, "Collections"),
      h("p", {}, h("button", { class: "change", onclick: () => void this.saveLive() }, "Save a filter"), " ",
        h("button", { onclick: () => void this.compare() }, "Compare two"), " ",
        h("span", { class: "soft" }, "Snapshots are saved from the list of episodes, from hits and from the map.")),
      rows.length
        ? h("section", {}, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["", "name", "holds", "snapshot", "who", "when", ""].map((name) => h("th", { scope: "col" }, name || h("span", { class: "unseen" }, "actions"))))), h("tbody", {}, rows)))
        : h("p", { class: "empty" }, "No collection yet: select episodes and press c."),
      this.difference);
  }

  /** @param {string} name */
  choose(name) {
    if (this.chosen.has(name)) this.chosen.delete(name);
    else this.chosen.add(name);
  }

  async compare() {
    if (this.chosen.size !== 2) {
      say("choose two collections");
      return;
    }
    const [before, after] = [...this.chosen];
    const found = await get("/api/collections/diff", { before, after });
    const uids = (/** @type {string} */ change) => found.items.filter((/** @type {Json} */ one) => one.change === change).map((/** @type {Json} */ one) => one.uid);
    const shown = (/** @type {string} */ change) => {
      const listed = [...new Set(uids(change))];
      return h("li", {}, `${change}: ${found[change]} `, listed.length > 0 && listed.length <= 200 && h("a", { href: address("/", { q: `uid:${listed.join(",")}` }) }, "show"));
    };
    fill(this.difference, h("h2", {}, `From ${before} to ${after}`), h("ul", {}, ["added", "removed", "reweighted"].map(shown)));
  }

  async saveLive() {
    const where = await askText("A live collection", "Filter, evaluated anew each time");
    const name = where && await askText("A live collection", "Its name");
    if (where && name) await this.act(() => post("/api/collections", { name, where, live: true }), `saved ${name}`);
  }

  /** @param {string} name */
  async split(name) {
    const text = h("input", { type: "text", value: "train=0.8,val=0.1,test=0.1" });
    const by = h("input", { type: "text", placeholder: "field whose equal values stay together, e.g. meta.scene" });
    const form = h("form", {
      method: "dialog",
      onsubmit: () => {
        const fractions = Object.fromEntries(text.value.split(",").map((part) => part.split("=")).map(([key, value]) => [key.trim(), Number(value)]));
        void this.act(() => post("/api/collection-splits", { ref: name, fractions, by: by.value.trim() ? [by.value.trim()] : undefined }), `split ${name}`);
      },
    }, h("label", {}, "Parts", text), h("label", {}, "By", by), h("div", { class: "actions" }, h("button", { class: "primary" }, "Split")));
    openDialog(`Split ${name} without leaks`, form);
  }

  /** @param {string} name */
  async drop(name) {
    if (await confirmed(`Drop ${name}`, "The name is removed; a snapshot remains available by its hash.", "Drop")) {
      await this.act(() => remove(`/api/collections/${encodeURIComponent(name)}`), `dropped ${name}`);
    }
  }

  /** @param {() => Promise<unknown>} act @param {string} label */
  async act(act, label) {
    try {
      await act();
      say(label);
      await this.load();
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), { error: true });
    }
  }
}
