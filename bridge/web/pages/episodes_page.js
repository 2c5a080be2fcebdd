// The list of all episodes: table, filter, facets, selection, and what one does with it.
import { address, ApiError, episodePath, get, isAborted } from "./base/api.js";
import { reasonOf } from "./base/dialogs.js";
import { append, ended, fill, h, say } from "./base/dom.js";
import { number, plural } from "./base/format.js";
import { onChangeKey, onKey } from "./base/keys.js";
import { readState, writeState } from "./base/url_state.js";
import { afterChange, askCollection, askLiveCollection, askNote, askReview, askTag, rate } from "./components/annotations.js";
import { askColumns, column, fitting, usualColumns } from "./components/columns.js";
import { askExport } from "./components/exports.js";
import { Facets } from "./components/facets.js";
import { FilterBox } from "./components/filter_box.js";
import { makeShell, onArchiveChange } from "./components/shell.js";
import { similarLink } from "./components/query_starts.js";
import { EpisodeTable } from "./components/table.js";
import { Thumbnails } from "./components/thumbnails.js";
import { nameOf } from "./model/queue_lines.js";

/** @typedef {import("./components/table.js").Row} Row */
/** @typedef {import("./components/table.js").Column} Column */

const ALWAYS = ["uid", "episode_id", "name", "root", "key"];
const FALLBACK = { items: [], columns: ["env", "length", "reward"], facets: ["env"], more_facets: [] };

export function showEpisodes() {
  new EpisodesPage().begin();
}

class EpisodesPage {
  constructor() {
    this.main = makeShell("Episodes");
    /** @type {Map<string, Row>} */
    this.selected = new Map();
    this.anchor = 0;
    /** @type {string[]} */
    this.usual = [];
    /** @type {string[]} columns in which episodes differ, the most telling first */
    this.telling = [];
    this.total = 0; // episodes that pass the filter, once they are counted
    this.box = new FilterBox({ label: "Filter", onChange: (text, first) => this.filterBy(text, first) });
    this.facets = new Facets({ onFilter: (change) => this.filterBy(change(this.where)) });
    this.count = h("p", { class: "count", role: "status" });
    this.actions = h("div", { class: "bar-actions", role: "toolbar", "aria-label": "What to do with the selection" });
    this.table = new EpisodeTable({
      fetchRows: (offset, limit, signal) => this.fetchRows(offset, limit, signal),
      onOpen: (row) => location.assign(this.linkTo(row, this.table.current)),
      onSort: (field) => { writeState({ sort: field }, { push: true }); void this.load(); },
      onShown: (rows) => void this.thumbnails.fetch(rows.map((row) => row.uid)),
      isSelected: (row) => this.selected.has(row.uid),
      onSelect: (row, index, range) => this.select(row, index, range),
    });
    this.thumbnails = new Thumbnails(() => this.table.draw());
    this.save = h("button", { class: "change", onclick: () => askLiveCollection(this.where) }, "Save this filter");
    this.empty = h("div", { class: "empty", hidden: true });
    this.control = new AbortController();
  }

  begin() {
    append(this.main, [
      h("h1", { class: "unseen" }, "Episodes"),
      this.facets.element,
      h("section", { class: "list", "aria-label": "List" },
        h("div", { class: "tools" }, this.box.element,
          this.save,
          h("button", { onclick: () => this.askColumns() }, "Columns")),
        h("div", { class: "status" }, this.count, this.actions),
        this.table.element, this.empty),
    ]);
    this.main.classList.add("episodes");
    window.addEventListener("popstate", () => void this.load());
    window.addEventListener("themechange", () => this.table.draw());
    window.addEventListener("resize", () => { this.table.setColumns(this.tableColumns(), this.sort); this.table.draw(); });
    for (const whenChanged of [afterChange, onArchiveChange]) whenChanged(() => void this.load(true));
    this.bindKeys();
    void this.load();
    this.table.element.focus({ preventScroll: true });
  }

  get where() {
    return readState().get("q") || "";
  }

  get sort() {
    return readState().get("sort") || "episode_id";
  }

  get columns() {
    const chosen = readState().getAll("column");
    return chosen.length ? chosen : this.usual;
  }

  /** @param {string} text @param {boolean} [push] whether the back button comes back to the filter before */
  filterBy(text, push = true) {
    if (text === this.where) return;
    writeState({ q: text }, { push });
    void this.load();
  }

  /** @param {number} offset @param {number} limit @param {AbortSignal} signal @returns {Promise<Row[]>} */
  async fetchRows(offset, limit, signal) {
    const chosen = readState().getAll("column");
    const columns = [...ALWAYS, ...(chosen.length ? chosen : usualColumns())]; // also those that are not shown yet
    const asked = { where: this.where, sort: this.sort, skip: offset, limit, columns, count: false };
    return (await get("/api/episodes", asked, signal)).items;
  }

  /** @param {boolean} [stay] */
  async load(stay = false) {
    this.control.abort();
    this.facets.stop();
    this.control = new AbortController();
    const { signal } = this.control;
    this.box.set(this.where);
    this.table.setColumns(this.tableColumns(), this.sort);
    this.main.setAttribute("aria-busy", "true");
    this.facets.element.setAttribute("aria-busy", "true");
    if (!stay) this.total = 0;
    this.drawActions();
    try {
      // Rows first: browsers ask for few things at once, and nothing may stand before what is looked at.
      const [rows, fields] = [this.fetchRows(0, this.table.blocks.size, signal), this.loadFields(stay)];
      const [first] = await Promise.all([rows, this.usual.length || fields]); // later ones may have other columns
      this.table.setColumns(this.tableColumns(), this.sort);
      this.box.report(null);
      this.table.reset(stay ? Math.max(first.length, this.table.total) : first.length, first, stay);
      this.showEmpty(first.length);
      this.main.removeAttribute("aria-busy");
      const { total, hints } = await get("/api/count", { where: this.where }, signal);
      this.total = total;
      this.table.setTotal(total);
      fill(this.count, plural(total, "episode"));
      void fields.then(() => signal.aborted || this.showFacets());
      this.empty.querySelector("h2")?.after(...hints.map((/** @type {string} */ hint) => h("p", {}, hint)));
    } catch (error) {
      if (isAborted(error)) return;
      this.total = 0;
      const misread = error instanceof ApiError && error.status === 400;
      if (!this.table.total) this.showEmpty(0, misread ? "This filter cannot be read" : "The episodes cannot be listed");
      this.box.report(error);
      if (!misread) say(reasonOf(error), { error: true });
    } finally {
      if (!signal.aborted) this.main.removeAttribute("aria-busy");
    }
    this.drawActions();
  }

  showFacets() {
    this.table.setColumns(this.tableColumns(), this.sort);
    this.table.draw();
    void this.facets.show(this.where);
  }

  /** What the archive has, once, and again after changes: the first tag has a column. @param {boolean} again */
  async loadFields(again) {
    if (this.box.fields.length && !again) return;
    const found = await get("/api/fields").catch(() => FALLBACK); // rows matter more
    this.box.setFields(found);
    this.telling = found.columns;
    this.facets.setFields(found);
    this.usual = usualColumns(this.telling);
  }

  /** @param {number} total @param {string} [why] there are none, "" where the archive is empty */
  showEmpty(total, why = this.where ? "No episode passes this filter" : "") {
    this.empty.hidden = total > 0;
    this.table.element.hidden = total === 0;
    if (total > 0) return;
    if (why) fill(this.empty, h("h2", {}, why), this.where && h("button", { onclick: () => this.filterBy("") }, "Show all episodes"));
    else {
      fill(this.empty, h("h2", {}, "This archive is empty"),
        h("p", {}, "Ingest a folder of episodes; they appear here as soon as they are in:"),
        h("pre", {}, `wshard ingest YOUR/EPISODES --archive ${document.body.dataset.archive}`),
        h("p", {}, "Or follow a folder in which a robot records:"),
        h("pre", {}, `wshard watch YOUR/FOLDER --archive ${document.body.dataset.archive}`));
    }
  }

  /** @returns {Column[]} */
  tableColumns() {
    const columns = /** @type {Column[]} */ ([
      { name: "chosen", title: "", width: "28px", cell: (row, index) => this.checkbox(row, index) },
      { name: "lanes", title: "Lanes", width: "140px", cell: (row) => this.thumbnails.draw(row.uid) },
      {
        name: "episode_id", title: "Episode", width: "minmax(130px, 2fr)", pinned: true, sort: "episode_id",
        cell: (row, index) => ended("a", { href: this.linkTo(row, index), tabindex: -1 }, nameOf(row)),
      },
      { name: "similar", title: "", width: "106px", cell: (row) => similarLink(row.uid, nameOf(row)) },
      ...this.columns.map((name) => column(name)),
    ]);
    return readState().has("column") ? columns : fitting(columns, this.table.element.parentElement?.clientWidth || innerWidth, this.telling);
  }

  /** The page of an episode, which knows the list that it is one of. @param {Row} row @param {number} index */
  linkTo(row, index) {
    const state = readState();
    return address(episodePath(row.uid), { q: state.get("q"), sort: state.get("sort"), at: index });
  }

  /** Find episodes similar to what a key or a button is about: the first is the query, others are further examples. */
  findSimilar() {
    const [query, ...like] = this.targets();
    if (query) location.assign(address("/search", { query, like }));
  }

  /** @param {Row} row @param {number} index */
  checkbox(row, index) {
    return h("input", {
      type: "checkbox", tabindex: -1, checked: this.selected.has(row.uid), "aria-label": `Select ${nameOf(row)}`,
      onclick: (/** @type {MouseEvent} */ event) => this.select(row, index, event.shiftKey),
    });
  }

  /** @param {Row} row @param {number} index @param {boolean} range */
  select(row, index, range) {
    if (range) {
      const [from, to] = [Math.min(this.anchor, index), Math.max(this.anchor, index)];
      for (let at = from; at <= to; at += 1) {
        const one = this.table.blocks.row(at);
        if (one) this.selected.set(one.uid, one);
      }
    } else if (this.selected.has(row.uid)) this.selected.delete(row.uid);
    else this.selected.set(row.uid, row);
    this.anchor = index;
    this.table.current = index;
    this.table.draw();
    this.drawActions();
  }

  /** What a key is about: the selection, or else the row one is at. */
  targets() {
    const current = this.table.currentRow();
    const rows = this.selected.size ? [...this.selected.values()] : current ? [current] : [];
    return rows.map((row) => row.uid);
  }

  drawActions() {
    const count = this.selected.size;
    const all = this.where && this.total;
    this.save.hidden = !all;
    if (!count && !all) {
      fill(this.actions);
      return;
    }
    const target = () => (count ? { episodes: this.targets() } : { where: this.where, expect: this.total });
    const many = plural(count || this.total, "episode");
    const act = (/** @type {string} */ label, /** @type {(target: any) => unknown} */ run) =>
      h("button", { class: "change", onclick: () => void run(target()) }, label);
    fill(this.actions,
      h("span", {}, count ? `${number(count)} selected:` : "All matching:"),
      count > 0 && h("button", { class: "primary", onclick: () => this.findSimilar() }, "Find similar"),
      count > 1 && count <= 6 && h("button", { onclick: () => location.assign(address("/compare", { of: this.targets() })) }, "Compare"),
      act("Tag", askTag), act("Review", askReview), act("Note", askNote), act("Collect", askCollection),
      act("Export", (chosen) => askExport(chosen, many)),
      count > 0 && h("button", { class: "quiet", onclick: () => this.clearSelection() }, "Clear"));
  }

  clearSelection() {
    this.selected.clear();
    this.table.draw();
    this.drawActions();
  }

  bindKeys() {
    onKey("j", "next episode", () => this.table.move(1));
    onKey("k", "previous episode", () => this.table.move(-1));
    onKey(" ", "select the episode", () => {
      const row = this.table.currentRow();
      if (row) this.select(row, this.table.current, false);
    });
    onKey("Enter", "open the episode", () => {
      const row = this.table.currentRow();
      if (row) location.assign(this.linkTo(row, this.table.current));
    });
    onKey("f", "find episodes similar to it, or to those selected", () => this.findSimilar());
    onKey("/", "to the filter", () => this.box.input.select());
    onChangeKey("r", "review", () => this.withTargets((uids) => askReview({ episodes: uids })));
    onChangeKey("t", "tag", () => this.withTargets((uids) => askTag({ episodes: uids })));
    onChangeKey("n", "note", () => this.withTargets((uids) => askNote({ episodes: uids })));
    onChangeKey("c", "save as a collection", () => this.withTargets((uids) => askCollection({ episodes: uids })));
    onKey("Escape", "clear the selection", () => this.clearSelection());
    for (const value of [1, 2, 3, 4, 5]) {
      onChangeKey(String(value), `rate ${"★".repeat(value)}`, () =>
        this.withTargets((uids) => void rate(uids, value)));
    }
  }

  /** @param {(uids: string[]) => void} act */
  withTargets(act) {
    const uids = this.targets();
    if (uids.length) act(uids);
  }

  askColumns() {
    const shown = this.tableColumns().map((one) => one.name).filter((name) => this.columns.includes(name));
    askColumns(shown, this.box.fields.map((field) => field.name), (chosen) => {
      writeState({ column: chosen }, { push: true });
      void this.load(true);
    });
  }
}
