// Moments like a span, or episodes like one: small multiples of aligned overlays, with filters, scores and examples.
import { address, episodePath, isAborted, pictureUrl, readLabels } from "../base/api.js";
import { reasonOf } from "../base/dialogs.js";
import { debounce, drawPicture, fill, h, withCode } from "../base/dom.js";
import { plural } from "../base/format.js";
import { cameraName, isPicture } from "../model/example.js";
import { labelOf } from "../model/labels.js";
import { nameOf } from "../model/queue_lines.js";
import { askCollection } from "./annotations.js";
import { findHits } from "../hits/find_hits.js";
import { drawAlignment, drawOverlay, liveliest, NOTHING, pairsOf, readDrawings } from "../hits/hit_drawing.js";

/** @typedef {import("../base/api.js").Json} Json */
/** @typedef {import("../hits/find_hits.js").Options} Options */

const WIDTH = 260;
const CHANNELS = 4;
const AROUND = 20; // timesteps that are drawn of a frame's moment at least
const ONE_LINE = 140; // letters of a note that stands there without being asked for

/** Hits of one search, drawn. */
export class HitList {
  /** @param {{ onMark: (span: string, right: boolean) => void, marks: () => { like: string[], unlike: string[] } }} options */
  constructor(options) {
    this.options = options;
    this.least = 0;
    this.labels = readLabels();
    /** @type {Json[]} */
    this.hits = [];
    this.redraw = () => {};
    window.addEventListener("themechange", () => this.redraw());
    this.count = h("p", { class: "count", role: "status" });
    this.notes = h("div", { class: "notes" });
    this.grid = h("ul", { class: "hits" });
    this.slider = h("input", {
      type: "range", min: 0, max: 1, step: 0.01, value: 0, "aria-label": "Minimum score",
      oninput: () => { this.least = Number(this.slider.value); this.filter(); },
    });
    this.leastText = h("output", {}, "any");
    this.tools = h("div", { class: "controls", hidden: true },
      h("label", { class: "least" }, "score at least ", this.slider, this.leastText),
      h("button", { class: "change", onclick: () => void askCollection({ episodes: [...new Set(this.passing().map((hit) => hit.uid))] }) }, "Collect these"));
    this.element = h("div", { class: "hit-list" },
      h("div", { class: "status" }, this.count, this.tools),
      this.grid, this.notes);
  }

  /** Whether a hit is shown: with the slider at its left end all are, also those with scores below 0. @param {Json} hit */
  passes(hit) {
    return this.least === 0 || hit.score >= this.least;
  }

  /** Say that a search goes on, where there is nothing to look at yet, or how far it is. @param {string} [text] */
  wait(text) {
    if (text || !this.hits.length) fill(this.count, text || "searching …");
  }

  passing() {
    return this.hits.filter((hit) => this.passes(hit));
  }

  filter() {
    this.leastText.textContent = this.least === 0 ? "any" : this.least.toFixed(2);
    const cards = /** @type {HTMLElement[]} */ ([...this.grid.children]);
    cards.forEach((card, index) => { card.hidden = !this.passes(this.hits[index]); });
    this.count.textContent = `${plural(this.passing().length, "hit")}${this.how}`;
  }

  /**
   * @param {Json} found
   * @param {string | null} first the query, or the first example
   * @param {AbortSignal} signal
   */
  async show(found, first, signal) {
    const query = first && isPicture(first) ? null : first;
    const labels = await this.labels;
    if (signal.aborted) return;
    this.hits = found.items;
    this.tools.hidden = !this.hits.length;
    const left = /** @type {Json[]} */ (found.not_compared || []);
    this.how = found.milliseconds === 0 ? "" : ` · ${found.certainty} · ${Math.round(found.milliseconds)} ms`;
    const compared = [...new Set(this.hits.flatMap((hit) => hit.compared_by || []))];
    const isLong = (/** @type {string} */ text) => text.length > ONE_LINE;
    const notes = /** @type {string[]} */ (found.notes);
    const details = [remediesOf(left), ...notes.filter(isLong), found.explained && JSON.stringify(found.explained)].filter(Boolean);
    const brief = [
      compared.length > 0 && `Compared by ${compared.join(", ")}`,
      left.length > 0 && `${plural(left.reduce((sum, one) => sum + one.episodes, 0), "episode")} not compared`,
      found.missing > 0 && `${found.missing} skipped: their files are missing or have changed`,
    ].filter(Boolean).join(" · ");
    fill(this.notes, notes.filter((text) => !isLong(text)).map((text) => h("p", {}, text)),
      details.length ? h("details", {}, h("summary", {}, brief || "Notes", h("span", { class: "link" }, " details")), details.map((text) => h("p", {}, text))) : h("p", {}, brief));
    const spanOf = (/** @type {Json} */ hit) => (hit.span[1] > hit.span[0] ? hit.span : [0, hit.metadata.length]);
    const differ = new Set(this.hits.map((hit) => String(hit.compared_by))).size > 1;
    const cards = this.hits.map((hit) => this.card(hit, spanOf(hit), labelOf(hit, labels), differ));
    fill(this.grid, cards.map((card) => card.element));
    this.redraw = () => {};
    this.filter();
    if (!this.hits.length) return;
    const spans = this.hits.map((hit) => {
      const [start, stop] = spanOf(hit);
      const around = hit.seen ? Math.max(0, Math.ceil((AROUND - stop + start) / 2)) : 0;
      return `${hit.uid}@${Math.max(0, start - around)}:${Math.min(hit.metadata.length, stop + around)}`;
    });
    const drawings = await readDrawings(this.hits, spans, query, signal);
    this.redraw = () => drawings.forEach((one, index) => cards[index].draw(one));
    this.redraw();
  }

  /** @param {Json} hit @param {[number, number]} span @param {string} label @param {boolean} differ whether hits were compared by different lanes */
  card(hit, span, label, differ) {
    const overlay = h("canvas", { role: "img", "aria-label": `${nameOf(hit)} over the query` });
    const alignment = h("canvas", { "aria-hidden": "true", hidden: !hit.alignment?.length });
    const picture = h("div", { class: "frame" });
    const caption = h("p", { class: "soft" });
    const named = `${hit.uid}@${span[0]}:${span[1]}`;
    const isSpan = hit.span[1] > hit.span[0] && (hit.span[0] > 0 || hit.span[1] < hit.metadata.length);
    const marks = this.options.marks();
    const { seen } = hit;
    const name = seen ? `${hit.uid}#${seen.camera}@${seen.step}` : isSpan ? named : hit.uid;
    const opened = seen ? `${seen.step}:${seen.step + 1}` : isSpan ? `${span[0]}:${span[1]}` : null;
    const mark = (/** @type {boolean} */ right) => h("button", {
      class: "mark", "aria-label": right ? "More like this" : "Not like this", title: right ? "more like this" : "not like this",
      "aria-pressed": String((right ? marks.like : marks.unlike).includes(name)),
      onclick: () => this.options.onMark(name, right),
    }, right ? "+" : "−");
    const parts = Object.entries(hit.contributions || {}).map(([lane, share]) => `${lane.split("/").slice(1).join("/") || lane} ${Number(share).toFixed(3)}`);
    const lanes = Object.entries(hit.lane_scores || {}).map(([lane, score]) => `${lane.split("/").slice(1).join("/") || lane} ${score.toFixed(2)}`);
    const compared = differ ? (hit.compared_by || []).map((/** @type {string} */ lane) => lane.replace("signal/", "")) : [];
    const element = h("li", { class: "hit" },
      h("header", {},
        h("span", { class: "score" }, hit.score.toFixed(3)),
        h("a", { href: address(episodePath(hit.uid), { span: opened }), title: nameOf(hit) }, nameOf(hit)),
        (seen || !this.hits.some((one) => one.seen)) && [mark(true), mark(false)]), // pictures are marked among pictures
      h("p", { class: "soft" }, [seen && `frame ${seen.step} of ${cameraName(seen.camera)}`, isSpan && `${span[0]}:${span[1]} of ${hit.metadata.length}`, label, hit.words].filter(Boolean).join(" · ")),
      h("div", { class: "drawn" }, picture, h("div", {}, overlay, alignment)),
      compared.length > 0 && h("p", { class: "soft lanes" }, "compared by: ", compared.join(" · ")),
      caption,
      lanes.length > 0 && h("p", { class: "soft lanes" }, lanes.join(" · ")),
      parts.length > 0 && h("p", { class: "soft lanes" }, "contributions: ", parts.join(" · ")),
      hit.remaining > 0 && h("a", { class: "next", href: address(episodePath(hit.uid), { span: `${span[1]}:${Math.min(hit.metadata.length, span[1] + (span[1] - span[0]))}` }) }, "what comes next there"));
    /** @param {import("../hits/hit_drawing.js").HitDrawing} drawing */
    const draw = ({ item, query, of }) => {
      const series = item.lanes[0];
      const wide = seen ? 128 : 70; // what was searched for is larger
      const [cameras, step] = seen ? [[seen.camera], seen.step] : [item.pictures, Math.floor((span[0] + span[1]) / 2)];
      const pictures = cameras.map((/** @type {string} */ name) => pictureUrl(hit.uid, name, step, 2 * wide));
      if (item.pictures.length) fill(picture, drawPicture(pictures, { width: wide }));
      if (!series) {
        overlay.replaceWith(h("p", { class: item.error ? "problem" : "soft" }, item.error || "no lane of numbers to draw"));
        return;
      }
      const width = item.pictures.length ? WIDTH - wide - 6 : WIDTH;
      const pairs = query ? pairsOf(hit.alignment || [], of, span) : series.steps.map((/** @type {number} */ step) => [0, step]);
      const channels = liveliest(query ?? series, CHANNELS);
      overlay.setAttribute("aria-label", `${series.lane} of ${nameOf(hit)}${query ? " over the query" : ""}`);
      overlay.title = series.lane;
      drawOverlay(overlay, { query: query ?? NOTHING, hit: series, pairs, channels: channels.length ? channels : liveliest(series, CHANNELS), width, height: 96 });
      if (query) drawAlignment(alignment, { pairs: hit.alignment || [], width, height: 14 });
      fill(caption, (hit.compared_by || []).length === 1 ? "" : `drawn: ${series.lane.replace("signal/", "")}`);
    };
    return { element, draw };
  }
}

/** The search that belongs to one episode: below its plots. */
export class SimilarMoments {
  /** @param {string} uid @param {Json} about */
  constructor(uid, about) {
    this.uid = uid;
    this.about = about;
    /** @type {Options} */
    this.options = { like: [], unlike: [], where: "", text: "", onePer: true, others: true, diversity: 0, top: 12 };
    this.query = "";
    this.control = new AbortController();
    this.hits = new HitList({
      marks: () => this.options,
      onMark: (span, right) => {
        toggleMark(this.options, span, right);
        void this.search();
        this.marked.querySelector("button")?.focus(); // the mark that was pressed is drawn anew
      },
    });
    this.title = h("h2", {}, "Similar moments");
    this.marked = h("span", { class: "controls", "aria-live": "polite" });
    this.element = h("section", { class: "similar", "aria-label": "Similar moments", hidden: true }, h("header", {}, this.title, this.controls(), this.marked), this.hits.element);
  }

  controls() {
    const changed = debounce(200, () => void this.search());
    const where = h("input", { type: "text", "aria-label": "Filter of the hits", placeholder: "filter", oninput: () => { this.options.where = where.value; changed(); } });
    const box = (/** @type {string} */ label, /** @type {"onePer" | "others"} */ name) => h("label", {},
      h("input", { type: "checkbox", checked: this.options[name], onchange: (/** @type {Event} */ event) => {
        this.options[name] = /** @type {HTMLInputElement} */ (event.target).checked;
        changed();
      } }), label);
    return h("div", { class: "controls" }, where, box("one per episode", "onePer"), box("other episodes only", "others"),
      h("button", { onclick: () => location.assign(this.searchAddress()) }, "Open as a search"));
  }

  searchAddress() {
    return address("/search", { query: this.query, like: this.options.like, unlike: this.options.unlike, q: this.options.where });
  }

  /**
   * @param {string | null} span START:STOP of the episode, or frames of a camera, FRAME or START:STOP
   * @param {string} [camera]
   */
  async find(span, camera) {
    if (isPicture(this.query) !== Boolean(camera)) Object.assign(this.options, { like: [], unlike: [] }); // of the other kind
    this.query = `${this.uid}${camera ? `#${camera}` : ""}${span ? `@${span}` : ""}`;
    this.title.textContent = camera ? `Frames like ${span} of ${cameraName(camera)}` : span ? `Moments like ${span}` : "Episodes like this one";
    this.element.hidden = false;
    await this.search();
  }

  async search() {
    this.control.abort();
    this.control = new AbortController();
    const { signal } = this.control;
    this.element.setAttribute("aria-busy", "true");
    this.hits.wait();
    const { like, unlike } = this.options;
    fill(this.marked, like.length + unlike.length > 0 && [
      `with ${plural(like.length, "example")} and ${plural(unlike.length, "counter-example")} `,
      h("button", { class: "quiet", onclick: () => { Object.assign(this.options, { like: [], unlike: [] }); void this.search(); } }, "Clear the examples"),
    ]);
    try {
      await this.hits.show(await findHits(this.query, this.options, signal, (text) => this.hits.wait(text)), this.query, signal);
    } catch (error) {
      if (isAborted(error)) return;
      fill(this.hits.count, h("span", { class: "problem" }, withCode(reasonOf(error))));
    } finally {
      if (!signal.aborted) this.element.removeAttribute("aria-busy");
    }
  }
}

/** Why episodes were not compared, and what compares them: each remedy once. @param {Json[]} left */
function remediesOf(left) {
  /** @type {Map<string, string[]>} */
  const reasons = new Map();
  for (const { episodes, reason, remedy } of left) reasons.set(remedy, [...(reasons.get(remedy) ?? []), `${episodes} ${reason}`]);
  return [...reasons].map(([remedy, those]) => `${those.join(", ")}: ${remedy}.`).join(" ");
}

/**
 * Mark something as an example or a counter-example, or neither.
 * @param {{ like: string[], unlike: string[] }} marks
 * @param {string} span
 * @param {boolean} right
 */
export function toggleMark(marks, span, right) {
  const [own, other] = right ? ["like", "unlike"] : ["unlike", "like"];
  const lists = /** @type {Record<string, string[]>} */ (/** @type {unknown} */ (marks));
  lists[other] = lists[other].filter((one) => one !== span);
  lists[own] = lists[own].includes(span) ? lists[own].filter((one) => one !== span) : [...lists[own], span];
}
