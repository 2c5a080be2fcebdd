// Facets: the values of fields with their counts, and histograms that one brushes. All of it is text of the filter.
import { get, isAborted } from "../base/api.js";
import { context2d, debounce, fill, h, themed } from "../base/dom.js";
import { number, shown } from "../base/format.js";
import { quoteValue, setRange, toggleValue, valuesOf, withoutField } from "../model/filter_text.js";

const FIELDS = ["env", "meta.task", "format", "root", "path", "success", "review", "tag", "flag", "collection"];
const SOMETIMES = ["meta.task", "path"]; // where they tell what others do not
const NUMBERS = ["length", "reward"];
const TITLES = /** @type {Record<string, string>} */ ({ env: "Environment", "meta.task": "Task", root: "Folder", path: "File", reward: "Total reward" });
const FEW = 8;
const MOST = 200;
const LISTS = ["tag", "flag", "collection"]; // of which an episode may have several: one value that all have is worth showing
const AT_ONCE = 2; // rows that one scrolls to must not wait for all of them

export class Facets {
  /** @param {{ onFilter: (text: string) => void }} options */
  constructor({ onFilter }) {
    this.onFilter = onFilter;
    this.where = "";
    this.element = h("aside", { class: "facets", "aria-label": "Facets" });
    /** @type {Map<string, { body: HTMLElement, search: HTMLInputElement, isLong: boolean }>} */
    this.places = new Map();
    for (const field of [...FIELDS, ...NUMBERS]) {
      const body = h("div", { class: "body" });
      const search = h("input", {
        type: "search", hidden: true, autocomplete: "off", placeholder: "find", "aria-label": `Find in ${title(field)}`,
        oninput: debounce(250, () => void this.showValues(field, this.control.signal)),
      });
      this.places.set(field, { body, search, isLong: false });
      this.element.append(h("details", { open: true, class: "facet nothing", "data-field": field }, h("summary", {}, title(field)), search, body));
    }
    this.control = new AbortController();
  }

  /** Stop counting for a filter that is another one by now. */
  stop() {
    this.control.abort();
  }

  /** @param {string} where @param {string[]} telling columns in which episodes differ */
  async show(where, telling) {
    this.where = where;
    this.stop();
    this.control = new AbortController();
    const { signal } = this.control;
    const wanted = [
      ...FIELDS.filter((field) => !SOMETIMES.includes(field) || telling.includes(field)).map((field) => () => this.showValues(field, signal)),
      ...NUMBERS.map((field) => () => this.showNumbers(field, signal)),
    ];
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
    const { body, search, isLong } = place;
    const text = search.value.trim();
    try {
      const others = withoutField(this.where, field);
      const where = text ? `${others} ${field}:*${quoteValue(text)}*` : others;
      const found = await get("/api/facets", { field, where, limit: isLong || text ? MOST : FEW + 1, sample: true }, signal);
      const chosen = valuesOf(this.where, field);
      const values = /** @type {{ value: any, episodes: number }[]} */ (found.items[0].values);
      const most = Math.max(1, ...values.map((one) => one.episodes));
      const hasMore = values.length > FEW;
      const isTelling = values.length > 1 || chosen.length > 0 || this.where.includes(`-${field}:*`) || values.some((one) => LISTS.includes(field) && one.value !== null);
      if (!text) {
        body.closest("details")?.classList.toggle("nothing", !isTelling);
        search.hidden = !hasMore;
      }
      const more = (/** @type {boolean} */ long) => {
        place.isLong = long;
        return this.showValues(field, this.control.signal);
      };
      fill(body, values.slice(0, isLong || text ? MOST : FEW).map((one) => this.value(field, one, chosen, most, found.scale > 1 ? "~" : "")),
        !values.length && h("p", { class: "more" }, "none"),
        hasMore && !text && h("button", { class: "link more", onclick: () => void more(!isLong).then(() => /** @type {HTMLElement | null} */ (body.querySelector("button.more"))?.focus()) }, isLong ? "Show fewer" : "Show more"),
        isLong && values.length === MOST && h("p", { class: "more" }, `the ${MOST} most frequent: find others above`));
    } catch (error) {
      if (!isAborted(error)) fill(body, h("p", { class: "more" }, "cannot be counted for this filter"));
    }
  }

  /** @param {string} field */
  place(field) {
    return /** @type {{ body: HTMLElement, search: HTMLInputElement, isLong: boolean }} */ (this.places.get(field));
  }

  /** @param {string} field @param {{ value: any, episodes: number }} one @param {string[]} chosen @param {number} most @param {string} about */
  value(field, one, chosen, most, about) {
    const missing = one.value === null;
    const checked = missing ? this.where.includes(`-${field}:*`) : chosen.includes(quoteValue(one.value));
    const name = missing ? "none" : one.value === "" ? '""' : shown(one.value);
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${(100 * one.episodes) / most}%`;
    const brief = ["root", "path"].includes(field) ? name.split("/").slice(-2).join("/") : name;
    return h("label", { class: missing ? "value missing" : "value", title: name },
      h("input", {
        type: "checkbox",
        checked,
        onchange: () => this.onFilter(toggleValue(this.where, field, one.value)),
      }),
      h("span", { class: "name" }, brief),
      h("span", { class: "count" }, about, number(one.episodes)),
      bar);
  }

  /** @param {string} field @param {AbortSignal} signal */
  async showNumbers(field, signal) {
    const place = this.place(field).body;
    try {
      const where = withoutField(this.where, field);
      const found = await get("/api/facets", { histogram: field, where, bins: 24, sample: true }, signal);
      const counts = /** @type {number[]} */ (found.histograms[0].counts);
      const hidden = counts.every((count) => count === 0) && !valuesOf(this.where, field).length;
      place.closest("details")?.classList.toggle("nothing", hidden);
      const histogram = new Histogram(found.histograms[0], (low, high) => this.onFilter(setRange(this.where, field, low, high)));
      fill(place, histogram.element);
      histogram.draw(rangeOf(this.where, field));
    } catch (error) {
      if (!isAborted(error)) fill(place, h("p", { class: "more" }, "cannot be counted for this filter"));
    }
  }
}

/** @param {string} field */
function title(field) {
  return TITLES[field] || field[0].toUpperCase() + field.slice(1);
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
