// The map: episodes as points, like ones near one another; hover shows one, a lasso selects many.
import { ApiError, episodePath, get, isAborted, pictureUrl } from "./base/api.js";
import { coloursOfLabels, UNLABELLED } from "./base/colours.js";
import { reasonOf } from "./base/dialogs.js";
import { debounce, drawPicture, fill, h, say, themed, withCode } from "./base/dom.js";
import { number, plain, plural } from "./base/format.js";
import { getComputed } from "./base/jobs.js";
import { onChangeKey, onKey } from "./base/keys.js";
import { readState, writeState } from "./base/url_state.js";
import { askCollection, askReview, askTag } from "./components/annotations.js";
import { FilterBox } from "./components/filter_box.js";
import { Points } from "./components/points.js";
import { makeShell } from "./components/shell.js";
import { offerSpaces } from "./components/spaces.js";
import { drawSparkline } from "./components/sparkline.js";
import { nameOf } from "./model/queue_lines.js";

/** @typedef {import("./base/api.js").Json} Json */

const MOST_LABELS = 24;
const METHODS = [["pca", "PCA"], ["tsne", "t-SNE"], ["umap", "UMAP"], ["pacmap", "PaCMAP"]];

export function showMap() {
  new MapPage().begin();
}

class MapPage {
  constructor() {
    this.main = makeShell("Map");
    this.main.classList.add("mapped");
    this.canvas = h("canvas", { class: "points", role: "img", "aria-label": "Map of the episodes" });
    this.lasso = h("canvas", { class: "lasso", "aria-hidden": "true" });
    this.card = h("div", { class: "card", hidden: true });
    this.legend = h("ul", { class: "legend", "aria-label": "Colours" });
    this.plane = h("div", { class: "plane" }, this.canvas, this.lasso, this.card, this.legend,
      h("p", { class: "hint" }, "drag: pan · wheel: zoom · Shift and drag: lasso"));
    this.status = h("p", { class: "count", role: "status" });
    this.actions = h("div", { class: "bar-actions change" });
    this.box = new FilterBox({ label: "Filter", onChange: (text, push) => { writeState({ q: text }, { push }); void this.load(); } });
    this.colour = h("input", { type: "text", "aria-label": "Coloured by", onchange: () => { writeState({ colour: this.colour.value.trim() }); void this.load(); } });
    this.space = h("select", { "aria-label": "Space", onchange: () => { writeState({ space: this.space.value }); void this.load(); } });
    this.method = h("select", { "aria-label": "Layout", onchange: () => { writeState({ method: this.method.value === "pca" ? null : this.method.value }); void this.load(); } },
      METHODS.map(([value, title]) => h("option", { value }, title)));
    /** @type {Json} */
    this.found = { uids: [] };
    /** @type {number[]} */
    this.selected = [];
    this.hover = debounce(60, (/** @type {number} */ index, /** @type {MouseEvent} */ event) => void this.showCard(index, event));
    this.control = new AbortController();
  }

  begin() {
    fill(this.main, h("h1", { class: "unseen" }, "Map"),
      h("div", { class: "tools" }, this.box.element, h("label", {}, "colour ", this.colour), this.space, this.method),
      h("div", { class: "status" }, this.status, this.actions),
      this.plane);
    try {
      this.points = new Points(this.canvas);
    } catch (error) {
      fill(this.status, h("span", { class: "problem" }, error instanceof Error ? error.message : String(error)));
      return;
    }
    this.listen();
    onChangeKey("t", "tag the selection", () => this.act(askTag));
    onChangeKey("r", "review the selection", () => this.act(askReview));
    onChangeKey("c", "save the selection as a collection", () => this.act(askCollection));
    onKey("a", "select all points", () => this.select([...this.found.uids.keys()]));
    onKey("Escape", "clear the selection", () => this.select([]));
    onKey("+", "zoom in", () => this.points?.zoomAt(1.4, this.canvas.clientWidth / 2, this.canvas.clientHeight / 2));
    onKey("-", "zoom out", () => this.points?.zoomAt(1 / 1.4, this.canvas.clientWidth / 2, this.canvas.clientHeight / 2));
    window.addEventListener("popstate", () => void this.load());
    window.addEventListener("themechange", () => this.paint());
    new ResizeObserver(() => this.points?.draw()).observe(this.canvas);
    void get("/api/fields").then((found) => this.box.setFields(found), () => {});
    void offerSpaces(this.space).then(() => this.load(), () => {});
  }

  /** @param {boolean} [fresh] compute the layout again */
  async load(fresh = false) {
    const state = readState();
    this.box.set(state.get("q") || "");
    this.colour.value = state.get("colour") || "";
    this.method.value = state.get("method") || "pca";
    this.control.abort();
    this.control = new AbortController();
    fill(this.status, "computing …");
    try {
      const asked = { where: state.get("q"), space: state.get("space") || this.space.value, colour: this.colour.value, method: this.method.value };
      const { signal } = this.control;
      const say = (/** @type {Json} */ { what }) => fill(this.status, `${what || "waiting for other jobs"} … `, h("a", { href: "/maintenance" }, "Maintenance"));
      const found = await getComputed("/api/map", asked, { fresh: fresh || null }, say, signal);
      this.found = found;
      this.colour.value = found.colour;
      for (const option of this.method.options) {
        const needed = found.not_installed[option.value];
        option.text = `${METHODS.find(([value]) => value === option.value)?.[1]}${needed ? " (needs the extra map)" : ""}`;
        option.title = needed ? `not installed: ${needed}` : "";
        option.disabled = Boolean(needed);
      }
      this.box.report(null);
      this.plane.hidden = false;
      this.points?.setPlaces(found.x, found.y);
      this.select([]);
      const how = found.share === null ? this.method.selectedOptions[0].text : `principal components, ${Math.round(100 * found.share)} % of the variance`;
      const others = this.space.options.length - 1;
      const part = `${number(found.total)} of ${plural(found.matching, "episode")} have this Space${others > 0 ? `; choose from ${plural(others, "other")} above` : ""}`;
      fill(this.status, found.total < found.matching ? part : plural(found.total, "episode"), found.counts ? `, ${plural(found.uids.length, "point")}` : "", ` · ${how}`,
        found.stale && h("span", {}, " · vectors have changed since ", h("button", { class: "change", onclick: () => void this.load(true) }, "Compute again")));
    } catch (error) {
      if (isAborted(error)) return;
      const isOfFilter = error instanceof ApiError && error.position !== undefined;
      this.box.report(isOfFilter ? error : null);
      this.plane.hidden = !isOfFilter;
      fill(this.status, !isOfFilter && h("span", { class: "problem" }, withCode(reasonOf(error))));
    }
  }

  paint() {
    const { uids, colours, counts, labels } = this.found;
    if (!colours || !this.points) return;
    const { isRamp, colours: ofLabels } = coloursOfLabels(labels);
    const shades = new Float32Array(3 * uids.length);
    const big = new Float32Array(uids.length);
    const chosen = new Set(this.selected);
    for (let at = 0; at < uids.length; at += 1) {
      const [red, green, blue] = ofLabels[colours[at]] || UNLABELLED;
      const dim = chosen.size && !chosen.has(at) ? 0.35 : 1;
      shades.set([(red / 255) * dim + (1 - dim) * 0.5, (green / 255) * dim + (1 - dim) * 0.5, (blue / 255) * dim + (1 - dim) * 0.5], 3 * at);
      big[at] = (chosen.has(at) ? 1.5 : 1) * (counts ? Math.min(3, Math.sqrt(counts[at])) : 1);
    }
    this.points.setLooks(shades, big);
    this.points.draw();
    this.canvas.dataset.points = String(uids.length);
    const shown = /** @type {number[]} */ (isRamp ? [0, labels.length - 1] : [...labels.keys()].slice(0, MOST_LABELS));
    fill(this.legend, shown.map((label) => {
      const dot = h("span", { class: "dot", "aria-hidden": "true" });
      dot.style.background = `rgb(${ofLabels[label].join(",")})`;
      return h("li", {}, h("button", { class: "quiet", onclick: () => this.selectLabel(label) }, dot, isRamp ? plain(Number(labels[label])) : labels[label]));
    }), labels.length > MOST_LABELS && !isRamp && h("li", { class: "soft" }, `${labels.length - MOST_LABELS} more`));
  }

  /** @param {number} wanted the place of a label */
  selectLabel(wanted) {
    this.select(this.found.colours.flatMap((/** @type {number} */ one, /** @type {number} */ at) => (one === wanted ? [at] : [])));
  }

  /** @param {number[]} places */
  select(places) {
    this.selected = places;
    this.paint();
    fill(this.actions, places.length > 0 && [
      h("span", {}, `${number(places.length)} selected:`),
      h("button", { onclick: () => this.act(askTag) }, "Tag"), h("button", { onclick: () => this.act(askReview) }, "Review"),
      h("button", { onclick: () => this.act(askCollection) }, "Collect"), h("button", { class: "quiet", onclick: () => this.select([]) }, "Clear"),
    ]);
  }

  /** @param {(target: { episodes: string[] }) => unknown} run */
  act(run) {
    const episodes = this.selected.map((at) => this.found.uids[at]);
    if (episodes.length > 1000) say("at most 1,000 at once: select fewer, or filter the list", { error: true });
    else if (episodes.length) void run({ episodes });
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.points?.zoomAt(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.pressed(event));
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons === 0) this.hover(this.points?.nearest(event.offsetX, event.offsetY) ?? -1, event);
    });
    canvas.addEventListener("dblclick", (event) => {
      const at = this.points?.nearest(event.offsetX, event.offsetY) ?? -1;
      if (at >= 0) location.assign(episodePath(this.found.uids[at]));
    });
  }

  /** @param {PointerEvent} event */
  pressed(event) {
    const { canvas } = this;
    canvas.setPointerCapture(event.pointerId);
    this.card.hidden = true;
    /** @type {[number, number][]} */
    const line = [[event.offsetX, event.offsetY]];
    const move = (/** @type {PointerEvent} */ at) => {
      if (event.shiftKey) {
        line.push([at.offsetX, at.offsetY]);
        this.drawLasso(line);
      } else this.points?.pan(at.movementX, at.movementY);
    };
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", () => {
      canvas.removeEventListener("pointermove", move);
      this.drawLasso([]);
      if (event.shiftKey && line.length > 2) this.select(this.points?.inside(line) || []);
    }, { once: true });
  }

  /** @param {[number, number][]} line */
  drawLasso(line) {
    const { lasso } = this;
    lasso.width = this.canvas.clientWidth;
    lasso.height = this.canvas.clientHeight;
    const context = lasso.getContext("2d");
    if (!context || line.length < 2) return;
    context.strokeStyle = themed("--accent");
    context.lineWidth = 1.5;
    context.setLineDash([5, 4]);
    context.beginPath();
    line.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    context.stroke();
  }

  /** @param {number} index @param {MouseEvent} event */
  async showCard(index, event) {
    if (index < 0) {
      this.card.hidden = true;
      return;
    }
    const uid = this.found.uids[index];
    const label = this.found.colours[index];
    const picture = h("div", { class: "thumbnail" });
    const name = h("strong", {}, this.found.episode_ids[index]); // its name comes with its drawing
    fill(this.card, name, label >= 0 && h("span", { class: "soft" }, ` ${this.found.labels[label]}`),
      this.found.counts && h("p", {}, `and ${number(this.found.counts[index] - 1)} near it`), picture);
    this.card.hidden = false;
    this.card.style.left = `${Math.min(event.offsetX + 14, this.canvas.clientWidth - 240)}px`;
    this.card.style.top = `${Math.min(event.offsetY + 14, this.canvas.clientHeight - 110)}px`;
    try {
      const [one] = (await get("/api/series", { of: uid, points: 80, lanes: 1 })).items;
      fill(name, nameOf(one));
      const spark = h("canvas", {});
      const pictures = one.pictures.map((/** @type {string} */ lane) => pictureUrl(uid, lane, Math.floor(one.span[1] / 2), 96));
      fill(picture, pictures.length > 0 && drawPicture(pictures, { height: 48 }), spark);
      drawSparkline(spark, one.lanes[0]?.values || [], { width: 140, height: 48 });
    } catch {
      // a point without a drawing is a point
    }
  }
}
