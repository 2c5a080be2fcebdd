// Search in one box: examples, counter-examples, words and a filter, all together.
import { address, episodePath, get, isAborted } from "./api.js";
import { fill, h, say } from "./dom.js";
import { FilterBox } from "./filter_box.js";
import { makeShell } from "./shell.js";
import { findHits, HitList, toggleMark } from "./similar.js";
import { readState, writeState } from "./url_state.js";

export function showSearch() {
  new SearchPage().begin();
}

class SearchPage {
  constructor() {
    this.main = makeShell("Search");
    this.main.classList.add("scrolled");
    this.control = new AbortController();
    this.box = new FilterBox({ label: "Filter", onChange: (text, push) => { writeState({ q: text }, { push }); void this.search(); } });
    this.text = h("input", { type: "search", "aria-label": "Words", placeholder: "words of the task or of notes", onchange: () => { writeState({ text: this.text.value.trim() }, { push: true }); void this.search(); } });
    this.examples = h("div", { class: "examples" });
    this.diversity = h("input", { type: "range", min: 0, max: 1, step: 0.05, value: 0, "aria-label": "Diversity", onchange: () => { writeState({ diversity: this.diversity.value === "0" ? null : this.diversity.value }); void this.search(); } });
    this.onePer = h("input", { type: "checkbox", onchange: () => { writeState({ all: this.onePer.checked ? null : "1" }); void this.search(); } });
    this.hits = new HitList({ marks: () => this.marks(), onMark: (span, right) => this.mark(span, right) });
  }

  begin() {
    fill(this.main, h("h1", {}, "Search"),
      h("div", { class: "search" }, this.text, this.box.element,
        h("label", {}, this.onePer, "one per episode"), h("label", {}, "diversity", this.diversity)),
      this.examples, this.hits.element);
    void get("/api/fields").then((found) => { this.box.fields = found.items; }, () => {});
    window.addEventListener("popstate", () => void this.search());
    void this.search();
  }

  marks() {
    const state = readState();
    return { like: state.getAll("like"), unlike: state.getAll("unlike") };
  }

  /** @param {string} span @param {boolean} right */
  mark(span, right) {
    const marks = this.marks();
    toggleMark(marks, span, right);
    writeState(marks, { push: true });
    void this.search();
  }

  async search() {
    const state = readState();
    const query = state.get("query");
    const { like, unlike } = this.marks();
    this.text.value = state.get("text") || "";
    this.box.set(state.get("q") || "");
    this.onePer.checked = !state.has("all");
    this.diversity.value = state.get("diversity") || "0";
    this.drawExamples(query, like, unlike);
    this.control.abort();
    this.control = new AbortController();
    const { signal } = this.control;
    if (!query && !like.length && !this.text.value) {
      fill(this.hits.count, "Type words, or mark episodes and moments as examples: + on a hit, or “Find similar” on an episode.");
      fill(this.hits.grid);
      return;
    }
    const options = { like, unlike, where: this.box.input.value.trim(), text: this.text.value, onePer: this.onePer.checked, others: true, diversity: Number(this.diversity.value), top: 24 };
    try {
      const found = await findHits(query, options, signal);
      this.box.report(null);
      await this.hits.show(found, query || like[0] || null, signal);
    } catch (error) {
      if (isAborted(error)) return;
      this.box.report(error);
      say(error instanceof Error ? error.message : String(error), { error: true });
    }
  }

  /** @param {string | null} query @param {string[]} like @param {string[]} unlike */
  drawExamples(query, like, unlike) {
    const chip = (/** @type {string} */ name, /** @type {string} */ kind) => {
      const [uid, span] = name.split("@");
      const label = h("a", { href: address(episodePath(uid), { span }) }, uid.slice(0, 8), span ? ` ${span}` : "");
      void get(`/api/episodes/${encodeURIComponent(uid)}`).then((found) => fill(label, found.episode_id, span ? ` ${span}` : ""), () => {});
      const off = () => {
        if (kind === "query") writeState({ query: null }, { push: true });
        else return this.mark(name, kind === "like");
        return void this.search();
      };
      return h("span", { class: `example ${kind}` }, kind === "unlike" ? "not like " : "like ", label,
        h("button", { class: "off", "aria-label": "Leave this example out", onclick: off }, "✕"));
    };
    fill(this.examples, query && chip(query, "query"), like.map((one) => chip(one, "like")), unlike.map((one) => chip(one, "unlike")));
  }
}
