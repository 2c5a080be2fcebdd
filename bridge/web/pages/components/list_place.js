// Where an episode is in the list that it was opened from: the way back, its position, and the ones before and after.
import { address, episodePath, get } from "../base/api.js";
import { fill, h, say } from "../base/dom.js";
import { number } from "../base/format.js";
import { quoteValue } from "../model/filter_text.js";
import { nameOf } from "../model/queue_lines.js";
import { readState } from "../base/url_state.js";

/** @typedef {import("../base/api.js").Json} Json */

const SAME_NAME = 50; // episodes, at most, among which one is found that was opened by its address

/** A button to the episode before or after; there may be none. @param {string} label @param {string | null} href */
export function turnTo(label, href) {
  return href ? h("a", { class: "button", href }, label) : h("span", { class: "button soft", "aria-disabled": "true", role: "link" }, label);
}

export class ListPlace {
  /** @param {string} uid @param {Json} about */
  constructor(uid, about) {
    this.uid = uid;
    this.about = about;
    const state = readState();
    this.where = state.get("q") || "";
    this.sort = state.get("sort");
    /** @type {Record<string, string | null>} by -1 and 1: the address of the episode before and after */
    this.neighbours = {};
    this.turns = h("span", { class: "turns" });
    this.element = h("nav", { class: "place", "aria-label": "Place in the list" },
      h("a", { href: address("/", { sort: this.sort }) }, "Episodes"),
      this.where && [h("span", {}, "›"), h("a", { href: address("/", { q: this.where, sort: this.sort }) }, this.where)],
      h("span", {}, "›"), h("span", {}, nameOf(about)), this.turns);
  }

  /** Ask for the neighbours. */
  async load() {
    const at = await this.position();
    const first = Math.max(0, at - 1);
    const list = { where: this.where, sort: this.sort || "episode_id" };
    const [{ items }, { total }] = await Promise.all([
      get("/api/episodes", { ...list, skip: first, limit: readState().has("at") ? 3 : SAME_NAME, columns: ["uid"], count: false }),
      get("/api/count", { where: this.where }),
    ]);
    const here = items.findIndex((/** @type {Json} */ one) => one.uid === this.uid);
    const own = here < 0 ? at - first : here; // one that left the list meanwhile is followed by the one in its place
    const link = (/** @type {number} */ index) => {
      const found = items[index];
      return found ? address(episodePath(found.uid), { q: this.where, sort: this.sort, at: first + index }) : null;
    };
    this.neighbours = { "-1": link(own - 1), "1": link(here < 0 ? own : own + 1) };
    fill(this.turns, turnTo("‹ Previous", this.neighbours[-1]),
      h("span", { class: "soft" }, here < 0 ? `no longer among these ${number(total)}` : `${number(first + here + 1)} of ${number(total)}`),
      turnTo("Next ›", this.neighbours[1]));
  }

  async position() {
    const state = readState();
    if (state.has("at")) return Number(state.get("at"));
    const before = `episode:<${quoteValue(this.about.episode_id || "")}`;
    return (await get("/api/count", { where: this.where ? `(${this.where}) ${before}` : before })).total;
  }

  /** Do nothing after a decision: who looks through a list goes on when they want to. */
  async goOn() {}

  /** @param {number} by */
  go(by) {
    const href = this.neighbours[by];
    if (href) location.assign(href);
    else say("there is no further episode");
  }
}
