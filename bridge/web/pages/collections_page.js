// Collections: list, look into, compare, split, take the list of files along.
import { address, get, post, remove } from "./base/api.js";
import { askForm, labelled } from "./base/dialogs.js";
import { fill, h, say } from "./base/dom.js";
import { moment, plural } from "./base/format.js";
import { afterChange, askLiveCollection } from "./components/annotations.js";
import { askExport } from "./components/exports.js";
import { makeShell } from "./components/shell.js";
import { quoteValue } from "./model/filter_text.js";

/** @typedef {import("./base/api.js").Json} Json */

export function showCollections() {
  const page = new CollectionsPage();
  afterChange(() => void page.load());
  void page.load();
}

class CollectionsPage {
  constructor() {
    this.main = makeShell("Collections");
    this.main.classList.add("scrolled");
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.comparing = h("button", { onclick: () => void this.compare() }, "Compare two");
    this.difference = h("section", { class: "difference", "aria-live": "polite" });
  }

  async load() {
    const found = await get("/api/collections");
    this.chosen.clear(); // as the boxes, which are drawn anew
    this.comparing.disabled = true;
    const rows = found.items.map((/** @type {Json} */ one) => h("tr", {},
      h("td", {}, h("input", { type: "checkbox", "aria-label": `Choose ${one.name}`, onchange: () => this.choose(one.name) })),
      h("td", {}, h("a", { href: address("/", { q: `collection:${quoteValue(one.name)}` }) }, one.name)),
      h("td", {}, one.snapshot ? [plural(one.snapshot.picks, "pick"), one.gone > 0 && h("span", { class: "problem" }, `, ${one.gone} not as they were`)] : h("code", {}, one.query || "everything")),
      h("td", {}, one.snapshot ? "snapshot" : "live"),
      h("td", {}, one.who), h("td", {}, moment(one.at)),
      h("td", { class: "actions" },
        h("a", { href: `/api/collection-lists/${encodeURIComponent(one.name)}?form=csv`, download: `${one.name}.csv` }, "csv"),
        h("a", { href: `/api/collection-lists/${encodeURIComponent(one.name)}?form=json`, download: `${one.name}.json` }, "json"),
        h("button", { class: "change", onclick: () => void askExport({ collection: one.name }, one.name) }, "Export"),
        h("button", { class: "change", onclick: () => this.split(one.name) }, "Split"),
        h("button", { class: "change", onclick: () => this.drop(one) }, "Drop"))));
    fill(this.main, h("h1", {}, "Collections"),
      h("p", {}, h("button", { class: "change", onclick: () => askLiveCollection("") }, "Save a filter"), " ",
        this.comparing, " ",
        h("span", { class: "soft" }, "Snapshots are saved from the list of episodes, from hits and from the map.")),
      rows.length
        ? h("section", {}, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["", "name", "holds", "kind", "who", "when (UTC)", ""].map((name) => h("th", { scope: "col" }, name || h("span", { class: "unseen" }, "actions"))))), h("tbody", {}, rows)))
        : h("p", { class: "empty" }, "No collection yet: select episodes and press c."),
      this.difference);
  }

  /** @param {string} name */
  choose(name) {
    if (this.chosen.has(name)) this.chosen.delete(name);
    else this.chosen.add(name);
    this.comparing.disabled = this.chosen.size !== 2;
  }

  async compare() {
    const [before, after] = [...this.chosen];
    const found = await get("/api/collections/diff", { before, after });
    const uids = (/** @type {string} */ change) => found.items.filter((/** @type {Json} */ one) => one.change === change).map((/** @type {Json} */ one) => one.uid);
    const shown = (/** @type {string} */ change) => {
      const listed = [...new Set(uids(change))];
      return h("li", {}, `${change}: ${found[change]} `, listed.length > 0 && listed.length <= 200 && h("a", { href: address("/", { q: `uid:${listed.join(",")}` }) }, "show"));
    };
    fill(this.difference, h("h2", {}, `From ${before} to ${after}`), h("ul", {}, ["added", "removed", "reweighted"].map(shown)));
  }

  /** @param {string} name */
  split(name) {
    const parts = h("input", { type: "text", value: "train=0.8,val=0.1,test=0.1", required: true, autofocus: true });
    const by = h("input", { type: "text", placeholder: "meta.scene" });
    askForm(`Split “${name}”`, {
      about: "Equal data come into the same part. Near copies may not: the queue Leaks of the page Review finds them.", label: "Split",
      fields: [labelled("Parts", parts, "names with their shares of the episodes"), labelled("Keep together by", by, "a field: episodes with equal values come into the same part; may be empty")],
      act: () => {
        const fractions = Object.fromEntries(parts.value.split(",").map((part) => part.split("=")).map(([key, value]) => [key.trim(), Number(value)]));
        return this.act(() => post("/api/collection-splits", { ref: name, fractions, by: by.value.trim() ? [by.value.trim()] : undefined }), `split ${name}`);
      },
    });
  }

  /** @param {Json} collection */
  drop({ name, snapshot }) {
    askForm(`Drop “${name}”`, {
      about: snapshot ? `The name is removed; the snapshot remains available by its hash ${snapshot.hash.slice(0, 12)}.` : "The name and its filter are removed; the episodes stay.", label: "Drop",
      act: () => this.act(() => remove(`/api/collections/${encodeURIComponent(name)}`), `dropped ${name}`),
    });
  }

  /** @param {() => Promise<Json>} act @param {string} label */
  async act(act, label) {
    const done = await act();
    say([label, ...(done?.notes ?? [])].join("; "));
    await this.load();
  }
}
