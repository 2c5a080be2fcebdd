// Search in one box: examples, counter-examples, words and a filter, all together.
import { address, ApiError, episodePath, get, isAborted, isUpload, post } from "./base/api.js";
import { askForm, labelled, reasonOf } from "./base/dialogs.js";
import { fill, h, say, withCode } from "./base/dom.js";
import { number, plural } from "./base/format.js";
import { readState, writeState } from "./base/url_state.js";
import { FilterBox } from "./components/filter_box.js";
import { QueryStarts } from "./components/query_starts.js";
import { SearchOptionsForm } from "./components/search_options.js";
import { makeShell } from "./components/shell.js";
import { HitList, toggleMark } from "./components/similar.js";
import { findHits } from "./hits/find_hits.js";
import { cameraName, isPicture, parseExample, uidsOf } from "./model/example.js";
import { nameOf } from "./model/queue_lines.js";

export function showSearch() {
  new SearchPage().begin();
}

class SearchPage {
  constructor() {
    this.main = makeShell("Search");
    this.main.classList.add("scrolled");
    this.control = new AbortController();
    this.box = new FilterBox({ label: "Filter", onChange: (text, push) => { writeState({ q: text }, { push }); void this.search(); } });
    this.text = h("input", { type: "search", "aria-label": "Words", placeholder: "words of tasks, metadata, notes", onchange: () => { writeState({ text: this.text.value.trim() }, { push: true }); void this.search(); } });
    this.examples = h("div", { class: "examples" });
    this.diversity = h("input", { type: "range", min: 0, max: 1, step: 0.05, value: 0, "aria-label": "Diversity", onchange: () => { writeState({ diversity: this.diversity.value === "0" ? null : this.diversity.value }); void this.search(); } });
    this.onePer = h("input", { type: "checkbox", onchange: () => { writeState({ all: this.onePer.checked ? null : "1" }); void this.search(); } });
    this.more = new SearchOptionsForm(() => void this.search());
    this.probe = h("div", { class: "probe", "aria-live": "polite" });
    this.starts = new QueryStarts({
      onQuery: (uid) => { writeState({ query: uid }, { push: true }); void this.search(); },
      onWords: () => this.text.focus(),
    });
    this.hits = new HitList({ marks: () => this.marks(), onMark: (span, right) => this.mark(span, right) });
  }

  begin() {
    fill(this.main, h("h1", {}, "Search"),
      h("div", { class: "search" }, this.text, this.box.element,
        h("label", {}, this.onePer, "one per episode"), h("label", {}, "diversity", this.diversity)),
      h("details", { class: "more" }, h("summary", {}, "More options"), this.more.element),
      this.examples, this.probe, this.starts.element, this.hits.element);
    void get("/api/fields").then((found) => this.box.setFields(found), () => {});
    window.addEventListener("popstate", () => void this.search());
    void this.more.load().then(() => this.search(), (error) => say(String(error), { error: true }));
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
    this.more.show();
    this.drawExamples(query, like, unlike);
    const isLearning = state.has("probe") && uidsOf([query ?? "", ...like]).length > 0;
    if (!isLearning) fill(this.probe);
    const isEmpty = !query && !like.length && !this.text.value && !state.has("words");
    this.starts.element.hidden = !isEmpty;
    this.hits.element.hidden = isEmpty;
    if (isLearning) return this.learn();
    this.control.abort();
    this.control = new AbortController();
    const { signal } = this.control;
    if (isEmpty) return this.starts.offer();
    const options = { like, unlike, where: this.box.input.value.trim(), text: this.text.value, onePer: this.onePer.checked, others: true, diversity: Number(this.diversity.value), top: 24, more: this.more };
    this.hits.wait();
    try {
      const found = await findHits(query, options, signal, (text) => this.hits.wait(text));
      this.box.report(null);
      await this.hits.show(found, query || like[0] || null, signal);
    } catch (error) {
      if (isAborted(error)) return undefined;
      const isOfFilter = error instanceof ApiError && error.position !== undefined;
      this.box.report(isOfFilter ? error : null);
      fill(this.hits.count, !isOfFilter && h("span", { class: "problem" }, withCode(await this.reason(query, error))));
    }
    return undefined;
  }

  /** Why nothing was found, in one sentence with the next step where the query has no vectors. @param {string | null} query @param {unknown} error */
  async reason(query, error) {
    const { uid } = parseExample(query || "");
    const about = uid && !isUpload(uid) ? await get(episodePath(uid).replace("/episodes", "/api/episodes")).catch(() => null) : null;
    if (!about || about.searched_by.length) return reasonOf(error);
    return `${about.name} has no vectors, so it cannot be compared: ingest its file with lanes that it has, by \`wshard ingest FILE --lanes LANE\`, or find it by words or a filter.`;
  }

  /** Few-shot: a linear probe over the stored vectors, from what is marked as right and as wrong. */
  async learn() {
    const { like, unlike } = this.marks();
    const query = readState().get("query");
    const right = uidsOf([query ?? "", ...like]);
    const asked = { right, wrong: uidsOf(unlike).filter((uid) => !right.includes(uid)), where: this.box.input.value.trim() };
    this.control.abort();
    this.control = new AbortController();
    const { signal } = this.control;
    try {
      const found = await get("/api/probe", { ...asked, top: 24 }, signal);
      const share = (/** @type {number | null} */ value) => (value === null ? "–" : `${Math.round(100 * value)} %`);
      fill(this.probe,
        h("p", {}, h("strong", {}, `${number(found.positive)} of ${plural(found.total, "episode")} count as right`),
          ` · learnt from ${found.right} right and ${found.wrong} wrong · precision ${share(found.precision)}, recall ${share(found.recall)} over the examples, each held out once `,
          h("button", { class: "primary change", onclick: () => this.keep(asked) }, "Save as a classifier"),
          h("button", { onclick: () => { writeState({ probe: null }, { push: true }); void this.search(); } }, "Back to the search")),
        h("p", {}, "Most uncertain, mark these: ", found.uncertain.map((/** @type {import("./base/api.js").Json} */ one) => h("span", { class: "example" },
          h("a", { href: episodePath(one.uid) }, nameOf(one)), ` ${one.value.toFixed(2)} `,
          h("button", { class: "mark", "aria-label": `${nameOf(one)} is right`, onclick: () => this.mark(one.uid, true) }, "+"),
          h("button", { class: "mark", "aria-label": `${nameOf(one)} is wrong`, onclick: () => this.mark(one.uid, false) }, "−")))));
      const items = found.items.map((/** @type {import("./base/api.js").Json} */ one) => ({ ...one, score: one.value, span: [0, one.length], metadata: { length: one.length, env_id: one.env_id } }));
      await this.hits.show({ items, exact: true, milliseconds: 0, notes: [], missing: 0 }, right[0], signal);
    } catch (error) {
      if (isAborted(error)) return undefined;
      fill(this.probe);
      fill(this.hits.count, h("span", { class: "problem" }, withCode(reasonOf(error))));
    }
    return undefined;
  }

  /** @param {Record<string, unknown>} asked */
  keep(asked) {
    const name = h("input", { type: "text", required: true, autofocus: true });
    askForm("Save as a classifier", {
      about: "A score for every episode, and a collection of those that count as right.", label: "Save", fields: [labelled("Name of the score, and of the collection", name)],
      act: async () => {
        const found = await post("/api/probe", { ...asked, name: name.value.trim() });
        say(`saved as score.${name.value.trim()}; collection ${name.value.trim()}: ${found.positive} episodes`);
      },
    });
  }

  /** @param {string | null} query @param {string[]} like @param {string[]} unlike */
  drawExamples(query, like, unlike) {
    const chip = (/** @type {string} */ name, /** @type {string} */ kind) => {
      const { uid, camera, span } = parseExample(name);
      const said = [camera && cameraName(camera), span].filter(Boolean).join(" ");
      const opened = camera && span && !span.includes(":") ? `${span}:${Number(span) + 1}` : span;
      const uploaded = isUpload(uid);
      const label = uploaded ? h("span", {}, "a file") : h("a", { href: address(episodePath(uid), { span: opened }) }, `… ${said}`);
      void get(`/api/${uploaded ? "queries" : "episodes"}/${encodeURIComponent(uid)}`).then((found) =>
        fill(label, `${nameOf(found)} ${said}`, uploaded && !isPicture(name) && ` (${plural(found.length, "timestep")})`), () => {});
      const off = () => {
        if (kind === "query") writeState({ query: null }, { push: true });
        else return this.mark(name, kind === "like");
        return void this.search();
      };
      return h("span", { class: `example ${kind}` }, kind === "unlike" ? "not like " : "like ", label,
        h("button", { class: "off", "aria-label": "Remove this example", onclick: off }, "✕"));
    };
    fill(this.examples, query && chip(query, "query"), like.map((one) => chip(one, "like")), unlike.map((one) => chip(one, "unlike")),
      uidsOf([query ?? "", ...like]).length > 0 && !readState().has("probe") && h("button", { onclick: () => { writeState({ probe: "1" }, { push: true }); void this.search(); } }, "Learn from these"));
  }
}
