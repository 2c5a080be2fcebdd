// One episode: cameras and plots on one clock, what is known and said of it, and moments like a span of it.
import { episodePath, get } from "./base/api.js";
import { reasonOf } from "./base/dialogs.js";
import { fill, h, say } from "./base/dom.js";
import { listEvents } from "./base/events.js";
import { clock as clockText, plural, shown } from "./base/format.js";
import { onChangeKey, onKey } from "./base/keys.js";
import { readState, writeState } from "./base/url_state.js";
import { afterChange, askCollection, askNote, askReview, askTag, rate, review, STATES, undoLast } from "./components/annotations.js";
import { CameraRow } from "./components/cameras.js";
import { drawFacts } from "./components/episode_facts.js";
import { keepAxis, LanePlot, readAxis } from "./components/lane_plots.js";
import { ListPlace } from "./components/list_place.js";
import { QueuePlace } from "./queues/queue_place.js";
import { makeShell, onArchiveChange, setTitle } from "./components/shell.js";
import { SimilarMoments } from "./components/similar.js";
import { marksOf } from "./model/findings.js";
import { labelOf } from "./model/labels.js";
import { nameOf } from "./model/queue_lines.js";
import { PlayClock } from "./model/play_clock.js";
import { grouped } from "./model/series.js";

/** @typedef {import("./base/api.js").Json} Json */

export async function showEpisode() {
  const main = makeShell("Episode");
  main.classList.add("scrolled");
  const uid = decodeURIComponent(location.pathname.split("/")[2] || "");
  try {
    await new EpisodePage(main, uid, await get(episodePath(uid).replace("/episodes", "/api/episodes"))).begin();
  } catch (error) {
    fill(main, h("div", { class: "empty" }, h("h1", {}, "This episode cannot be shown"),
      h("p", { class: "problem" }, error instanceof Error ? error.message : String(error)),
      h("a", { href: "/" }, "All episodes")));
  }
}

class EpisodePage {
  /** @param {HTMLElement} main @param {string} uid @param {Json} about */
  constructor(main, uid, about) {
    this.main = main;
    this.uid = uid;
    this.about = about;
    this.rate = about.rate || 1;
    this.clock = new PlayClock(about.length, this.rate);
    /** @type {[number, number] | null} */
    this.span = null;
    /** @type {LanePlot[]} */
    this.plots = [];
    /** @type {LanePlot | null} */
    this.dragged = null;
    this.cameras = new CameraRow(uid, about, (lane) => this.findFrames(lane));
    this.side = h("aside", { class: "about", "aria-label": "About this episode" });
    this.lanes = h("div", { class: "lanes" });
    this.spanText = h("span", { class: "span" });
    const lanes = about.searched_by;
    this.find = h("button", { class: "primary", disabled: !lanes.length, onclick: () => this.findSimilar() });
    this.compares = h("span", { class: "soft" }, lanes.length ? `compares ${lanes.join(", ")}` : "not embedded: it cannot be compared");
    this.similar = new SimilarMoments(uid, about);
    this.place = readState().has("queue") ? new QueuePlace(uid, about) : new ListPlace(uid, about);
    this.placed = Promise.resolve();
  }

  async begin() {
    const { about } = this;
    setTitle(nameOf(about));
    fill(this.main, this.place.element,
      h("div", { class: "episode" },
        h("div", { class: "shown" },
          h("div", { class: "title" }, h("h1", {}, nameOf(about)),
            h("span", { class: "soft" }, [labelOf(about), plural(about.length, "timestep"), about.clock].filter(Boolean).join(" · ")),
            about.file_is_there === false && h("span", { class: "problem" }, "its file is missing")),
          this.decisions(), this.cameras.element,
          this.transport(), this.lanes, this.similar.element),
        this.side));
    this.drawSide();
    this.clock.watch((step, playing) => this.clockMoved(step, playing));
    this.bindKeys();
    afterChange(() => void this.reload());
    onArchiveChange(() => void this.reload());
    this.placed = this.place.load().catch(() => {}); // without it the page shows the episode all the same
    await Promise.all([this.loadLanes(), this.cameras.load(this.clock)]);
    this.restore();
    window.addEventListener("popstate", () => this.restore());
  }

  async loadLanes() {
    const points = Math.max(400, Math.min(4000, 2 * Math.round(this.main.clientWidth)));
    const found = await get("/api/series", { of: this.uid, points });
    const [item] = found.items;
    if (item.error) {
      fill(this.lanes, h("p", { class: "problem" }, item.error));
      return;
    }
    const marks = marksOf(this.about.findings || []);
    const listeners = {
      onHover: (/** @type {number} */ step) => { if (!this.clock.playing) this.clock.seek(step); },
      onSeek: (/** @type {number} */ step) => { this.clock.seek(step); this.rememberTime(); },
      onSpan: (/** @type {number} */ start, /** @type {number} */ stop, /** @type {LanePlot} */ plot) => {
        this.dragged = plot;
        this.choose([start, stop]);
      },
    };
    this.plots = grouped(item.lanes.filter((/** @type {Json} */ one) => !this.isFlat(one)), item.residuals)
      .map((group) => new LanePlot(group, marks, { length: this.about.length, rate: this.about.rate, events: item.events, rates: this.about.stored_lanes }, listeners));
    const flat = item.lanes.filter((/** @type {Json} */ one) => this.isFlat(one));
    fill(this.lanes, listEvents(item.events, listeners.onSeek), this.plots.map((plot) => plot.element),
      flat.length > 0 && h("p", { class: "soft" }, `Without change: ${flat.map((/** @type {Json} */ one) => `${one.lane} = ${shown(one.values[0]?.[0])}`).join(", ")}`));
    for (const plot of this.plots) plot.build();
    new ResizeObserver(() => this.plots.forEach((plot) => plot.resize())).observe(this.lanes);
    window.addEventListener("themechange", () => this.plots.forEach((plot) => plot.rebuild()));
  }

  /** Whether a lane has one value for the whole episode. @param {Json} lane */
  isFlat(lane) {
    return lane.of === 1 && !lane.lane.startsWith("signal/") && lane.values[0].every((/** @type {unknown} */ one) => one === lane.values[0][0]);
  }

  /** Where and what the address says: ?t= in seconds, ?span= in timesteps. */
  restore() {
    const state = readState();
    const span = /^(\d+):(\d+)$/.exec(state.get("span") || "");
    this.choose(span ? [Number(span[1]), Math.min(this.about.length, Number(span[2]))] : null, false);
    const time = Number(state.get("t"));
    if (state.has("t") && Number.isFinite(time)) this.clock.seek(Math.round(time * this.rate));
    else if (this.span) this.clock.seek(this.span[0]);
    const frames = /^(.+)@(\d+(?::\d+)?)$/.exec(state.get("similar") || "");
    if (frames) this.showFrames(frames[1], frames[2]);
    else if (state.has("similar")) this.showSimilar();
  }

  rememberTime() {
    writeState({ t: String(Number((Math.floor(this.clock.step) / this.rate).toFixed(3))) });
  }

  /** @param {[number, number] | null} span @param {boolean} [write] */
  choose(span, write = true) {
    this.span = span;
    for (const plot of this.plots) plot.showSpan(span);
    fill(this.spanText, span
      ? [`span ${span[0]}:${span[1]} `,
        h("button", { class: "quiet", onclick: () => this.choose(null) }, "Clear")]
      : h("span", { class: "soft" }, "drag over a plot, or press [ and ], to choose a span"));
    fill(this.find, span ? "Find this moment " : "Find similar ", h("kbd", {}, "f"));
    this.cameras.showSpan(span);
    if (write) writeState({ span: span ? `${span[0]}:${span[1]}` : null });
  }

  /** Let the span begin or end at the clock's timestep. @param {0 | 1} end */
  chooseEnd(end) {
    const at = Math.floor(this.clock.step) + end;
    const span = /** @type {[number, number]} */ ([...(this.span ?? [0, this.about.length])]);
    span[end] = at;
    if (span[0] >= span[1]) span[1 - end] = end ? 0 : this.about.length;
    if (span[0] < span[1]) this.choose(span);
  }

  findSimilar() {
    if (this.find.disabled) return;
    writeState({ similar: "1" });
    void this.showSimilar().then(() => this.similar.element.scrollIntoView());
  }

  /** Find what cameras saw like one of the episode, in its span or now. @param {string} lane */
  findFrames(lane) {
    const asked = this.span ? this.span.join(":") : String(Math.floor(this.clock.step));
    writeState({ similar: `${lane}@${asked}` });
    void this.showFrames(lane, asked).then(() => this.similar.element.scrollIntoView());
  }

  /** @param {string} lane @param {string} asked */
  showFrames(lane, asked) {
    this.lanes.before(this.similar.element);
    return this.similar.find(asked, lane);
  }

  /** Have the hits appear under the plot that the span was dragged on. */
  showSimilar() {
    (this.dragged || this.plots[0])?.element.after(this.similar.element);
    return this.similar.find(this.span && this.span.join(":"));
  }

  transport() {
    this.playButton = h("button", { class: "play", "aria-label": "Play", onclick: () => this.toggle() }, "▶");
    this.slider = h("input", {
      type: "range", min: 0, max: this.about.length - 1, step: 1, value: 0, "aria-label": "Timestep",
      oninput: () => { this.clock.seek(Number(this.slider?.value)); this.rememberTime(); },
    });
    this.time = h("output", { class: "time" });
    this.speed = h("select", { "aria-label": "Speed", onchange: () => this.clock.setSpeed(Number(this.speed?.value)) },
      [0.125, 0.25, 0.5, 1, 2, 4, 8].map((factor) => h("option", { value: factor, selected: factor === 1 }, `${factor}×`)));
    return h("div", { class: "transport", role: "group", "aria-label": "Player" }, this.playButton,
      h("button", { "aria-label": "Back one timestep", onclick: () => this.stepBy(-1) }, "‹"),
      h("button", { "aria-label": "Forward one timestep", onclick: () => this.stepBy(1) }, "›"),
      this.slider, this.time, this.speed, this.about.rate && this.axisChoice(),
      h("div", { class: "asks" }, this.find, this.compares, this.spanText));
  }

  /** Whether the plots' axis is of timesteps or of seconds: remembered for other episodes. */
  axisChoice() {
    const choice = h("select", {
      "aria-label": "Axis of time",
      onchange: () => { keepAxis(choice.value); this.plots.forEach((plot) => plot.rebuild()); },
    }, ["steps", "seconds"].map((name) => h("option", { value: name, selected: name === readAxis() }, name)));
    return choice;
  }

  toggle() {
    this.clock.toggle();
    if (!this.clock.playing) this.rememberTime();
  }

  /** @param {number} by */
  stepBy(by) {
    this.clock.pause();
    this.clock.seek(Math.floor(this.clock.step) + by);
    this.rememberTime();
  }

  /** @param {number} step @param {boolean} playing */
  clockMoved(step, playing) {
    const whole = Math.floor(step);
    if (this.slider) this.slider.value = String(whole);
    if (this.time) this.time.textContent = `${clockText(step / this.rate)} · ${whole} / ${this.about.length - 1}`;
    if (this.playButton) {
      this.playButton.textContent = playing ? "❚❚" : "▶";
      this.playButton.setAttribute("aria-label", playing ? "Pause" : "Play");
    }
    this.cameras.show(step, playing, this.clock.speed);
    for (const plot of this.plots) plot.show(step, playing);
  }

  async reload() {
    try {
      this.about = await get(episodePath(this.uid).replace("/episodes", "/api/episodes"));
      this.drawSide();
    } catch (error) {
      say(String(error instanceof Error ? error.message : error), { error: true });
    }
  }

  drawSide() {
    fill(this.side, drawFacts(this.uid, this.about));
  }

  /** What one decides about the episode, by a button or its key; in a queue the next episode follows. */
  decisions() {
    const buttons = STATES.map(([key, state, label]) => {
      const act = () => void this.decide(state);
      onChangeKey(key, this.place instanceof QueuePlace ? `${state}, and go on` : state, act);
      return h("button", { class: "change", onclick: act }, label, " ", h("kbd", {}, key));
    });
    return h("div", { class: "bar-actions", role: "toolbar", "aria-label": "Decide about this episode" }, buttons,
      this.place instanceof QueuePlace && h("button", { title: "the next one, without a decision", onclick: () => void this.go(1) }, "Skip ", h("kbd", {}, "j")),
      h("button", { class: "change", title: "undo the last change", onclick: () => void undoLast() }, "Undo ", h("kbd", {}, "u")));
  }

  /** @param {string} state */
  async decide(state) {
    try {
      await review({ episodes: [this.uid] }, state);
    } catch (error) {
      say(reasonOf(error), { error: true });
      return;
    }
    await this.placed;
    await this.place.goOn();
  }

  /** Go to an episode before or after this one, once it is known which these are. @param {number} by */
  async go(by) {
    await this.placed;
    this.place.go(by);
  }

  bindKeys() {
    const target = { episodes: [this.uid] };
    onKey(" ", "play or pause", () => this.toggle());
    onKey("ArrowLeft", "back one timestep", () => this.stepBy(-1));
    onKey("ArrowRight", "forward one timestep", () => this.stepBy(1));
    onKey("Shift+ArrowLeft", "back ten timesteps", () => this.stepBy(-10));
    onKey("Shift+ArrowRight", "forward ten timesteps", () => this.stepBy(10));
    onKey("f", "find moments like the span, or like the episode", () => this.findSimilar());
    onKey("[", "the span begins here", () => this.chooseEnd(0));
    onKey("]", "the span ends here", () => this.chooseEnd(1));
    onKey("Escape", "clear the span", () => this.choose(null));
    onChangeKey("r", "review", () => askReview(target));
    onChangeKey("t", "tag", () => void askTag(target));
    onChangeKey("n", "note", () => void askNote(target));
    onChangeKey("c", "save as a collection", () => void askCollection(target));
    onKey("j", "next episode of the list or queue", () => void this.go(1));
    onKey("k", "previous episode of the list or queue", () => void this.go(-1));
    for (const value of [1, 2, 3, 4, 5]) {
      onChangeKey(String(value), `rate ${"★".repeat(value)}`, () => void rate([this.uid], value));
    }
  }
}
