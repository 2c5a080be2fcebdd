// Facets: the values of fields with their counts, and histograms that one brushes. All of it is text of the filter.
import { get, isAborted } from "../base/api.js";
import { context2d, debounce, ended, fill, h, themed } from "../base/dom.js";
import { number, plural, shown } from "../base/format.js";
import { readState, writeState } from "../base/url_state.js";
import { briefNames } from "../model/brief.js";
import { titleOf } from "../model/field_names.js";
import { quoteValue, setRange, toggleValue, valuesOf, withoutField } from "../model/filter_text.js";

const NUMBERS = ["length", "reward"];
const TITLES = { path: "File" };
const FIRST = ["env", "meta.task", "success"]; // before the histograms
const UNSURE = ["env", "success"]; // of which an archive may have one value
const PATHS = ["folder", "path", "format"];
const FEW = 8;
const MOST = 200;
const AT_ONCE = 2; // rows that one scrolls to must not wait for all of them

/** @typedef {{ element: HTMLDetailsElement, body: HTMLElement, search: HTMLInputElement, isChosen: boolean, isLong: boolean, isSeen: boolean }} Place */

export class Facets {
  /** @param {{ onFilter: (change: (where: string) => string) => void }} options what changes the filter of now: counts of an earlier one may still be shown */
  constructor({ onFilter }) {
    this.onFilter = onFilter;
    this.where = "";
    /** @type {string[]} */
    this.fields = [];
    /** @type {import("../base/api.js").Json} */
    this.found = { facets: [], more_facets: [] };
    /** @type {Map<string, Place>} */
    this.places = new Map();
    this.more = h("select", { "aria-label": "More facets", onchange: () => this.addChosen() });
    this.foot = h("div", { class: "add", hidden: true }, this.more);
    this.element = h("aside", { class: "facets", "aria-label": "Facets" }, this.foot);
    this.control = new AbortController();
  }

  /** Stop counting for a filter that is another one by now. */
  stop() {
    this.control.abort();
  }

  /**
   * Have a place for each field; those that are there stay where they are.
   * @param {import("../base/api.js").Json} found what /api/fields answers
   */
  setFields(found) {
    this.found = found;
    const { facets, more_facets } = /** @type {{ facets: string[], more_facets: string[] }} */ (found);
    const chosen = readState().getAll("facet").filter((field) => !facets.includes(field) && !NUMBERS.includes(field));
    const leading = facets.filter((field) => FIRST.includes(field));
    this.fields = [...leading, ...NUMBERS, ...facets.filter((field) => !FIRST.includes(field)), ...chosen];
    for (const [field, place] of this.places) if (!this.fields.includes(field)) place.element.classList.add("nothing");
    this.fields.forEach((field, index) => {
      if (this.places.has(field)) return;
      const before = this.places.get(this.fields[index - 1])?.element;
      const place = this.makePlace(field, chosen.includes(field));
      this.places.set(field, place);
      if (before) before.after(place.element);
      else this.element.prepend(place.element);
    });
    const others = more_facets.filter((field) => !this.fields.includes(field));
    this.more.hidden = others.length === 0;
    fill(this.more, h("option", { value: "" }, "More facets…"), others.map((field) => h("option", { value: field }, titleOf(field, TITLES))));
  }

  /** @param {string} field @param {boolean} isChosen @returns {Place} */
  makePlace(field, isChosen) {
    const title = titleOf(field, TITLES);
    const body = h("div", { class: "body" });
    const search = h("input", {
      type: "search", hidden: true, autocomplete: "off", placeholder: "find", "aria-label": `Find in ${title}`,
      oninput: debounce(250, () => void this.showValues(field, this.control.signal)),
    });
    const remove = isChosen && h("button", { class: "link more", onclick: () => this.choose(field, false) }, "Leave out");
    const element = h("details", { open: true, class: "facet nothing", "data-field": field }, h("summary", { title: field }, title), search, body, remove);
    return { element, body, search, isChosen, isLong: false, isSeen: false };
  }

  addChosen() {
    const field = this.more.value;
    if (!field) return;
    this.choose(field, true);
    const { element } = this.place(field);
    element.querySelector("summary")?.focus();
  }

  /** @param {string} field @param {boolean} isShown */
  choose(field, isShown) {
    const others = readState().getAll("facet").filter((one) => one !== field);
    writeState({ facet: isShown ? [...others, field] : others });
    this.places.get(field)?.element.remove();
    this.places.delete(field);
    this.setFields(this.found);
    if (isShown) void this.showValues(field, this.control.signal);
    else this.more.focus();
  }

  /** @param {string} where */
  async show(where) {
    this.where = where;
    this.foot.hidden = false;
    this.stop();
    this.control = new AbortController();
    const { signal } = this.control;
    const wanted = this.fields.map((field) => () => (NUMBERS.includes(field) ? this.showNumbers(field, signal) : this.showValues(field, signal)));
    const next = async () => {
      for (let one = wanted.shift(); one && !signal.aborted; one = wanted.shift()) await one();
    };
    this.element.setAttribute("aria-busy", "true");
    await Promise.all(Array.from({ length: AT_ONCE }, next));
    if (!signal.aborted) this.element.removeAttribute("aria-busy");
  }

  /** @param {string} field @param {AbortSignal} signal */
  async showValues(field, signal) {
    const place = this.place(field);
    const { element, body, search, isLong } = place;
    const text = search.value.trim();
    try {
      const where = [withoutField(this.where, field), ...(text ? [containing(field, text)] : [])].join(" ");
      const found = await get("/api/facets", { field, where, limit: isLong || text ? MOST : FEW + 1, sample: true }, signal);
      const chosen = valuesOf(this.where, field);
      const values = /** @type {{ value: any, episodes: number, text?: string }[]} */ (found.items[0].values);
      const most = Math.max(1, ...values.map((one) => one.episodes));
      const hasMore = values.length > FEW;
      place.isSeen ||= place.isChosen || values.length > (UNSURE.includes(field) ? 1 : 0) || chosen.length > 0 || this.where.includes(`-${field}:*`);
      if (!text) {
        element.classList.toggle("nothing", !place.isSeen);
        search.hidden = !hasMore;
      }
      const more = (/** @type {boolean} */ long) => {
        place.isLong = long;
        return this.showValues(field, this.control.signal);
      };
      const briefs = briefsOf(field, values.map((one) => one.value));
      fill(body, values.slice(0, isLong || text ? MOST : FEW).map((one) => this.value(field, one, chosen, most, { about: found.scale > 1 ? "~" : "", brief: one.text || briefs.get(one.value) })),
        !values.length && h("p", { class: "more" }, "none"),
        hasMore && !text && h("button", { class: "link more", onclick: () => void more(!isLong).then(() => /** @type {HTMLElement | null} */ (body.querySelector("button.more"))?.focus()) }, isLong ? "Show fewer" : "Show more"),
        isLong && values.length === MOST && h("p", { class: "more" }, `the ${MOST} most frequent: find others above`),
        found.scale > 1 && !UNSURE.includes(field) && h("p", { class: "more" }, `estimated from ${plural(found.counted, "episode")}: rare values may be missing`));
    } catch (error) {
      if (!isAborted(error)) fill(body, h("p", { class: "more" }, "cannot be counted for this filter"));
    }
  }

  /** @param {string} field */
  place(field) {
    return /** @type {Place} */ (this.places.get(field));
  }

  /** @param {string} field @param {{ value: any, episodes: number }} one @param {string[]} chosen @param {number} most @param {{ about: string, brief?: string }} words */
  value(field, one, chosen, most, { about, brief }) {
    const missing = one.value === null;
    const checked = missing ? this.where.includes(`-${field}:*`) : chosen.includes(quoteValue(one.value));
    const name = missing ? "none" : shown(one.value) || "none";
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${(100 * one.episodes) / most}%`;
    return h("label", { class: missing || one.value === "" ? "value missing" : "value", title: name },
      h("input", {
        type: "checkbox",
        checked,
        onchange: () => this.onFilter((where) => toggleValue(where, field, one.value)),
      }),
      h("span", { class: "name" }, PATHS.includes(field) && brief ? ended("span", { title: name }, brief) : brief || name),
      h("span", { class: "count" }, about, number(about ? Number(one.episodes.toPrecision(2)) : one.episodes)),
      bar);
  }

  /** @param {string} field @param {AbortSignal} signal */
  async showNumbers(field, signal) {
    const place = this.place(field);
    try {
      const where = withoutField(this.where, field);
      const found = await get("/api/facets", { histogram: field, where, bins: 24, sample: true }, signal);
      const counts = /** @type {number[]} */ (found.histograms[0].counts);
      place.isSeen ||= counts.some((count) => count > 0) || valuesOf(this.where, field).length > 0;
      place.element.classList.toggle("nothing", !place.isSeen);
      const histogram = new Histogram(found.histograms[0], (low, high) => this.onFilter((where) => setRange(where, field, low, high)));
      fill(place.body, histogram.element);
      histogram.draw(rangeOf(this.where, field));
    } catch (error) {
      if (!isAborted(error)) fill(place.body, h("p", { class: "more" }, "cannot be counted for this filter"));
    }
  }
}

/**
 * Values of a facet in few letters: the ends of paths, and text in quotes where a number or flag looks alike.
 * @param {string} field
 * @param {any[]} values
 * @returns {Map<any, string>}
 */
function briefsOf(field, values) {
  const texts = values.filter((value) => typeof value === "string");
  if (PATHS.includes(field)) return briefNames(texts);
  const others = values.filter((value) => typeof value !== "string").map((value) => [String(value), shown(value)]).flat();
  return new Map(texts.filter((text) => others.includes(text)).map((text) => [text, `"${text}"`]));
}

/** Metadata may be numbers, which contain nothing. @param {string} field @param {string} text */
function containing(field, text) {
  const part = `${field}:*${quoteValue(text)}*`;
  return field.startsWith("meta.") && /^-?\d+(\.\d+)?$/.test(text) ? `(${part} OR ${field}:${text})` : part;
}

/**
 * @param {string} where
 * @param {string} field
 * @returns {[number | null, number | null]}
 */
export function rangeOf(where, field) {
  const [value] = valuesOf(where, field);
  const between = /^(-?[\d.e+-]+?)\.\.(-?[\d.e+-]+)?$/.exec(value || "");
  if (between) return [Number(between[1]), between[2] ? Number(between[2]) : null];
  const bound = /^(>=|<=)(-?[\d.e+-]+)$/.exec(value || "");
  if (!bound) return [null, null];
  return bound[1] === ">=" ? [Number(bound[2]), null] : [null, Number(bound[2])];
}

class Histogram {
  /**
   * @param {{ field: string, edges: number[], counts: number[], missing: number }} shape
   * @param {(low: number | null, high: number | null) => void} onRange
   */
  constructor(shape, onRange) {
    this.shape = shape;
    this.onRange = onRange;
    this.canvas = h("canvas", { role: "img", "aria-label": `Distribution of ${shape.field}; drag to choose a range` });
    const [first, last] = [shape.edges[0], shape.edges.at(-1)];
    const input = (/** @type {string} */ which) => h("input", {
      type: "number", step: "any", "aria-label": `${shape.field}, ${which}`,
      placeholder: which === "from" ? (first === undefined ? "" : number(first)) : last === undefined ? "" : number(last),
      onchange: () => this.given(),
    });
    this.low = input("from");
    this.high = input("to");
    this.element = h("div", { class: "histogram" }, this.canvas,
      h("div", { class: "range" }, this.low, "–", this.high,
        shape.missing > 0 && h("small", {}, `${number(shape.missing)} without`)));
    this.canvas.addEventListener("pointerdown", (event) => this.brush(event));
  }

  given() {
    const read = (/** @type {HTMLInputElement} */ input) => (input.value === "" ? null : Number(input.value));
    this.onRange(read(this.low), read(this.high));
  }

  /** @param {[number | null, number | null]} range */
  draw([low, high]) {
    this.low.value = low === null ? "" : String(low);
    this.high.value = high === null ? "" : String(high);
    this.paint(low, high);
  }

  /** @param {number | null} low @param {number | null} high */
  paint(low, high) {
    const { edges, counts } = this.shape;
    const [width, height] = [this.element.clientWidth || 200, 44];
    const context = context2d(this.canvas, width, height);
    const most = Math.max(1, ...counts);
    const step = width / Math.max(1, counts.length);
    counts.forEach((count, index) => {
      const inside = (low === null || edges[index + 1] > low) && (high === null || edges[index] <= high);
      context.fillStyle = themed(inside ? "--accent" : "--line");
      const tall = count ? Math.max(2, (count / most) * (height - 2)) : 0;
      context.fillRect(index * step + 0.5, height - tall, Math.max(1, step - 1), tall);
    });
  }

  /** @param {PointerEvent} event */
  brush(event) {
    const { edges } = this.shape;
    if (edges.length < 2) return;
    const box = this.canvas.getBoundingClientRect();
    const [first, last] = [edges[0], /** @type {number} */ (edges.at(-1))];
    const valueAt = (/** @type {PointerEvent} */ at) =>
      first + (Math.min(1, Math.max(0, (at.clientX - box.left) / box.width))) * (last - first);
    const begun = valueAt(event);
    let ended = begun;
    const rounded = (/** @type {number} */ value) => Number(value.toPrecision(4));
    const move = (/** @type {PointerEvent} */ at) => {
      ended = valueAt(at);
      this.paint(Math.min(begun, ended), Math.max(begun, ended));
    };
    const end = () => {
      this.canvas.removeEventListener("pointermove", move);
      const [low, high] = [Math.min(begun, ended), Math.max(begun, ended)];
      const tiny = high - low < (last - first) / 200;
      this.onRange(tiny ? null : rounded(low), tiny ? null : rounded(high));
    };
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", end, { once: true });
  }
}
