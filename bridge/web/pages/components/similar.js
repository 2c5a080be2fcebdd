// Moments like a span, or episodes like one: small multiples of aligned overlays, with filters, scores and examples.
import { address, episodePath, get, isAborted, pictureUrl } from "../base/api.js";
import { debounce, drawPicture, fill, h, say } from "../base/dom.js";
import { plural } from "../base/format.js";
import { quoteValue } from "../model/filter_text.js";
import { nameOf } from "../model/queue_lines.js";
import { askCollection } from "./annotations.js";
import { drawAlignment, drawOverlay, liveliest, pairsOf } from "./hit_drawing.js";

/** @typedef {import("../base/api.js").Json} Json */
/** @typedef {import("../model/series.js").Series} Series */
/** @typedef {{ like: string[], unlike: string[], where: string, text: string, onePer: boolean, others: boolean, diversity: number, top: number, more?: import("./search_options.js").SearchOptionsForm }} Options */

const WIDTH = 260;
const CHANNELS = 4;
const MOST_WORDS = 12; // that are counted, each by a request
const MOST_COUNTED = 250; // episodes of such a request

/**
 * Ask for hits: moments where the query is a span, else episodes.
 * @param {string | null} query UID or UID@START:STOP
 * @param {Options} options
 * @param {AbortSignal} signal
 */
export async function findHits(query, options, signal) {
  const examples = [query, ...options.like].filter(Boolean);
  const common = { query, like: options.like, unlike: options.unlike, where: options.where, top: options.top, exclude_self: examples.length > 0 && options.others };
  const more = options.more?.chosen("/api/search") || {};
  const ofSpans = examples.some((one) => one?.includes("@")) && !options.text && !more.windows_only;
  if (ofSpans) return get("/api/moments", { ...common, per_episode: options.onePer ? 1 : null, ...options.more?.chosen("/api/moments") }, signal);
  const distinct = (more.windows_only || more.windows) && options.onePer ? true : null;
  const found = await get("/api/search", { ...common, distinct, text: options.text, diversity: options.diversity || null, alignment: examples.length > 0 || null, ...more }, signal);
  if (options.text) await countWords(found.items, options.text, signal);
  return found;
}

/**
 * Let hits of words say how many of them they have: scores are shares of that of the best, which may lack some.
 * @param {Json[]} hits
 * @param {string} text
 * @param {AbortSignal} signal
 */
async function countWords(hits, text, signal) {
  const words = [...new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu))];
  const uids = [...new Set(hits.map((hit) => hit.uid))].slice(0, MOST_COUNTED);
  if (words.length < 2 || words.length > MOST_WORDS || !uids.length) return;
  const pages = await Promise.all(words.map((word) =>
    get("/api/episodes", { where: `uid:${uids.join(",")} text:${quoteValue(word)}`, limit: uids.length, columns: ["uid"], count: false }, signal)));
  const having = pages.map((page) => new Set(page.items.map((/** @type {Json} */ row) => row.uid)));
  const counted = new Set(uids);
  for (const hit of hits.filter((one) => counted.has(one.uid))) hit.words = `${having.filter((one) => one.has(hit.uid)).length} of ${words.length} words`;
}

/** Hits of one search, drawn. */
export class HitList {
  /** @param {{ onMark: (span: string, right: boolean) => void, marks: () => { like: string[], unlike: string[] } }} options */
  constructor(options) {
    this.options = options;
    this.least = 0;
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

  /** Say that a search goes on, where there is nothing to look at yet. */
  wait() {
    if (!this.hits.length) fill(this.count, "searching …");
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
   * @param {string | null} query
   * @param {AbortSignal} signal
   */
  async show(found, query, signal) {
    this.hits = found.items;
    this.tools.hidden = !this.hits.length;
    const left = /** @type {Json[]} */ (found.not_compared || []);
    const among = left.length ? ` among the ${plural(found.compared, "episode")} compared` : "";
    this.how = found.milliseconds === 0 ? "" : ` · ${found.exact ? "exact" : "approximate"}${among} · ${Math.round(found.milliseconds)} ms`;
    const compared = [...new Set(this.hits.flatMap((hit) => hit.compared_by || []))];
    fill(this.notes, compared.length > 0 && h("p", {}, `Compared by ${compared.join(", ")}.`), found.notes.map((/** @type {string} */ text) => h("p", {}, text)),
      left.length > 0 && h("p", {}, `Not compared: ${plural(left.reduce((sum, one) => sum + one.episodes, 0), "episode")} that pass the filter. `, remediesOf(left)),
      found.explained && h("p", { class: "soft" }, typeof found.explained === "string" ? found.explained : JSON.stringify(found.explained)),
      found.missing > 0 && h("p", {}, `${found.missing} skipped: their files are missing or have changed`));
    const spanOf = (/** @type {Json} */ hit) => (hit.span[1] > hit.span[0] ? hit.span : [0, hit.metadata.length]);
    const differ = new Set(this.hits.map((hit) => String(hit.compared_by))).size > 1;
    const cards = this.hits.map((hit) => this.card(hit, spanOf(hit), differ));
    fill(this.grid, cards.map((card) => card.element));
    this.redraw = () => {};
    this.filter();
    if (!this.hits.length) return;
    const spans = this.hits.map((hit) => `${hit.uid}@${spanOf(hit)[0]}:${spanOf(hit)[1]}`);
    const lanes = await get("/api/series", { of: query ? [query, ...spans] : spans, points: 400, lanes: 1 }, signal);
    const items = /** @type {Json[]} */ (lanes.items);
    const asked = query ? items.shift() : null;
    const from = asked?.span[0] ?? 0;
    const truth = /** @type {Series | undefined} */ (asked?.lanes[0]);
    const shifted = truth && { ...truth, steps: truth.steps.map((step) => step - from) };
    const channels = truth ? liveliest(truth, CHANNELS) : [];
    this.redraw = () => items.forEach((item, index) =>
      cards[index].draw(shifted, item, channels.length ? channels : liveliest(item.lanes[0] || { values: [] }, CHANNELS), [from, asked?.span[1] ?? 0]));
    this.redraw();
  }

  /** @param {Json} hit @param {[number, number]} span @param {boolean} differ whether hits were compared by different lanes */
  card(hit, span, differ) {
    const overlay = h("canvas", { role: "img", "aria-label": `${nameOf(hit)} over the query` });
    const alignment = h("canvas", { "aria-hidden": "true", hidden: !hit.alignment?.length });
    const picture = h("div", { class: "frame" });
    const named = `${hit.uid}@${span[0]}:${span[1]}`;
    const isSpan = hit.span[1] > hit.span[0] && (hit.span[0] > 0 || hit.span[1] < hit.metadata.length);
    const marks = this.options.marks();
    const name = isSpan ? named : hit.uid;
    const { seen } = hit;
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
        h("a", { href: address(episodePath(hit.uid), { span: opened }) }, nameOf(hit)),
        mark(true), mark(false)),
      h("p", { class: "soft" }, [seen && `frame ${seen.step} of ${seen.camera.replace("signal/", "")}`, isSpan && `${span[0]}:${span[1]} of ${hit.metadata.length}`, hit.metadata.env_id, hit.words].filter(Boolean).join(" · ")),
      h("div", { class: "drawn" }, picture, h("div", {}, overlay, alignment)),
      compared.length > 0 && h("p", { class: "soft lanes" }, "compared by: ", compared.join(" · ")),
      lanes.length > 0 && h("p", { class: "soft lanes" }, lanes.join(" · ")),
      parts.length > 0 && h("p", { class: "soft lanes" }, "contributions: ", parts.join(" · ")),
      hit.remaining > 0 && h("a", { class: "next", href: address(episodePath(hit.uid), { span: `${span[1]}:${Math.min(hit.metadata.length, span[1] + (span[1] - span[0]))}` }) }, "what comes next there"));
    /** @param {Series | undefined} query @param {Json} item @param {number[]} channels @param {[number, number]} asked */
    const draw = (query, item, channels, asked) => {
      if (item.error) {
        overlay.replaceWith(h("p", { class: "problem" }, item.error));
        return;
      }
      const series = item.lanes[0];
      if (!series) return;
      const width = item.pictures.length ? WIDTH - 76 : WIDTH;
      const shown = seen ? [seen.camera, seen.step] : [item.pictures[0], Math.floor((span[0] + span[1]) / 2)];
      if (item.pictures.length) fill(picture, drawPicture(pictureUrl(hit.uid, shown[0], shown[1], 128), { width: 70 }));
      const nothing = { lane: "", steps: [], channels: [], values: [], of: 0 };
      const pairs = query ? pairsOf(hit.alignment || [], asked, span) : series.steps.map((/** @type {number} */ step) => [0, step]);
      drawOverlay(overlay, { query: query && query.of === series.of ? query : nothing, hit: series, pairs, channels, width, height: 96 });
      if (query) drawAlignment(alignment, { pairs: hit.alignment || [], width, height: 14 });
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

  /** @param {[number, number] | null} span */
  async find(span) {
    this.query = span ? `${this.uid}@${span[0]}:${span[1]}` : this.uid;
    this.title.textContent = span ? `Moments like ${span[0]}:${span[1]}` : "Episodes like this one";
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
      await this.hits.show(await findHits(this.query, this.options, signal), this.query, signal);
    } catch (error) {
      if (isAborted(error)) return;
      fill(this.hits.count);
      say(error instanceof Error ? error.message : String(error), { error: true });
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
