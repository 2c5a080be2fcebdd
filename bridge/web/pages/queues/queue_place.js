// Where an episode is in the review queue that it was opened from: the way back, its position, and what comes next.
import { address } from "../base/api.js";
import { reasonOf } from "../base/dialogs.js";
import { fill, h, say } from "../base/dom.js";
import { number } from "../base/format.js";
import { readState } from "../base/url_state.js";
import { nameOf, QUEUES } from "../model/queue_lines.js";
import { turnTo } from "../components/list_place.js";
import { fetchQueue, fetchStates, keepPlace, lineAddress, nextUnreviewed, queueOf, reviewedOf } from "./queue.js";

/** @typedef {import("../base/api.js").Json} Json */

export class QueuePlace {
  /** @param {string} uid @param {Json} about */
  constructor(uid, about) {
    this.uid = uid;
    const name = readState().get("queue") || "";
    this.queue = queueOf(readState(), name in QUEUES ? name : "flagged");
    this.at = Number(readState().get("at")) || 0;
    /** @type {Json[]} */
    this.items = [];
    this.said = h("span", { class: "soft" });
    this.turns = h("span", { class: "turns" });
    this.element = h("nav", { class: "place", "aria-label": "Place in the queue" },
      h("a", { href: "/review" }, "Review"), h("span", {}, "›"),
      h("a", { href: address("/review", { ...this.queue }) }, QUEUES[this.queue.queue].title),
      h("span", {}, "›"), h("span", {}, nameOf(about)), this.said, this.turns);
  }

  /** Ask for the queue. */
  async load() {
    const found = await fetchQueue(this.queue, (text) => fill(this.turns, text));
    this.items = found.items;
    if (this.items[this.at]?.uid !== this.uid) this.at = this.items.findIndex((one) => one.uid === this.uid);
    const item = this.items[this.at];
    if (item) {
      keepPlace(this.queue, this.at);
      fill(this.said, `${QUEUES[this.queue.queue].why}: ${item.said} `,
        item.other && h("a", { href: address("/compare", { of: [item.other.uid, item.uid] }) }, `compare with ${nameOf(item.other)}`));
    }
    await this.count();
  }

  /** Say how far one is. */
  async count() {
    await fetchStates(this.items);
    fill(this.turns, turnTo("‹ Previous", this.link(this.at - 1)),
      h("span", { class: "soft" }, this.at < 0 ? "no longer in this queue" : `${number(this.at + 1)} of ${number(this.items.length)} · ${reviewedOf(this.items).text}`),
      turnTo("Next ›", this.link(this.at + 1)));
  }

  /** @param {number} at @returns {string | null} */
  link(at) {
    const item = this.items[at];
    return item ? lineAddress(this.queue, item.uid, at) : null;
  }

  /** @param {number} by */
  go(by) {
    const href = this.link(this.at + by);
    if (href) location.assign(href);
    else say("there is no further episode in this queue");
  }

  /** Go to the next without a review, as after a decision, or back to the queue after the last one. */
  async goOn() {
    try {
      await fetchStates(this.items);
      const next = nextUnreviewed(this.items, this.at);
      location.assign(this.link(next) ?? address("/review", { ...this.queue }));
    } catch (error) {
      say(reasonOf(error), { error: true });
    }
  }
}
