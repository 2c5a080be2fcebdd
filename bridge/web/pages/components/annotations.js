// Changes that people make: each can be undone, one after another, also on the pages that one goes to next.
import { ApiError, post } from "../base/api.js";
import { askForm, labelled, reasonOf } from "../base/dialogs.js";
import { h, say } from "../base/dom.js";
import { plural } from "../base/format.js";
import { nameOf } from "../model/queue_lines.js";

/** @typedef {{ episodes: string[] } | { where: string, expect: number }} Target */

const DONE = "wshard-done";
const MOST = 50; // that the server remembers
const NAMED = 5; // episodes in a message
/** @type {Set<() => void>} */
const watchers = new Set();

/** Call `act` after every change. @param {() => void} act */
export function afterChange(act) {
  watchers.add(act);
}

/** What this tab has changed, each with the number by which the server takes it back, if it can. @returns {{ label: string, undo?: number }[]} */
function changesDone() {
  return JSON.parse(sessionStorage.getItem(DONE) || "[]");
}

/**
 * Change something, and return its number; undoing takes back what this call has changed, and nothing else. Raises
 * what the server refuses.
 * @param {string} label
 * @param {string} path
 * @param {import("../base/api.js").Json} body
 * @returns {Promise<number | undefined>}
 */
async function change(label, path, body) {
  const { undo } = await post(path, body);
  sessionStorage.setItem(DONE, JSON.stringify([...changesDone(), { label, undo }].slice(-MOST)));
  say(label, undo ? { action: ["Undo", () => void undoLast()] } : {});
  for (const act of watchers) act();
  return undo;
}

/**
 * Say what was refused, in the corner: for changes that no dialog asks for.
 * @param {Promise<unknown>} changing
 * @returns {Promise<boolean>} whether it was done
 */
function report(changing) {
  return changing.then(() => true, (error) => { say(reasonOf(error), { error: true }); return false; });
}

/**
 * What was undone, and where it was not: others have changed the same since.
 * @param {string} label
 * @param {import("../base/api.js").Json} undone
 */
function sayUndone(label, { episodes, changed_since: others, changed_since_total: total }) {
  if (!total) {
    say(`undone: ${label}`);
    return;
  }
  const names = others.slice(0, NAMED).map((/** @type {import("../base/api.js").Json} */ one) => nameOf(one)).join(", ");
  const more = total > NAMED ? ` and ${total - NAMED} more` : "";
  say(`undone in ${plural(episodes, "episode")}: ${label}; changed by others since, and left as it is: ${names}${more}`, { error: true });
}

/**
 * Take the last change back, where nobody has changed the same since.
 * @returns {Promise<number | undefined>} its number, if it was taken back anywhere
 */
export async function undoLast() {
  /** @type {number | undefined} */
  let taken;
  const done = changesDone();
  const last = done.pop();
  if (!last) {
    say("nothing to undo");
    return taken;
  }
  sessionStorage.setItem(DONE, JSON.stringify(done));
  if (!last.undo) {
    say(`cannot be undone: ${last.label}; press u again to undo the change before it`, { error: true });
    return taken;
  }
  try {
    const undone = await post("/api/undos", { undo: last.undo });
    sayUndone(last.label, undone);
    if (undone.episodes) taken = last.undo;
  } catch (error) {
    if (error instanceof ApiError && error.status !== 409) sessionStorage.setItem(DONE, JSON.stringify([...done, last]));
    say(error instanceof Error ? error.message : String(error), { error: true });
  }
  for (const act of watchers) act();
  return taken;
}

/** @param {Target} target */
function many(target) {
  return plural("episodes" in target ? target.episodes.length : target.expect, "episode");
}

/** Which episodes these are, where nobody has chosen them one by one. @param {Target} target */
function which(target) {
  if ("episodes" in target) return "";
  return target.where ? `All that pass the filter ${target.where}` : "All episodes of the archive";
}

/** @param {Target} target @param {string} name @param {boolean} off */
function changeTag(target, name, off) {
  return change(`${off ? `untagged ${name}:` : `tagged ${name}:`} ${many(target)}`, "/api/tags", { ...target, name, remove: off });
}

/** Raises what the server refuses. @param {Target} target @param {string} state */
export function review(target, state) {
  return change(`${state}: ${many(target)}`, "/api/reviews", { ...target, state });
}

/** @param {Target} target @param {string} text */
function addNote(target, text) {
  return change(`noted: ${many(target)}`, "/api/notes", { ...target, text });
}

/** @param {Target} target @param {string} name @param {boolean} [off] */
export function tag(target, name, off = false) {
  return report(changeTag(target, name, off));
}

/** Rate episodes from 1 to 5. @param {string[]} episodes @param {number} value */
export function rate(episodes, value) {
  return report(change(`rated ${"★".repeat(value)}: ${plural(episodes.length, "episode")}`, "/api/scores", { episodes, name: "rating", value }));
}

/** @param {Target} target @param {string} text */
export function note(target, text) {
  return report(addNote(target, text));
}

/** Review states: the key of each, wherever one reviews, and what its button says. */
export const STATES = /** @type {[string, string, string][]} */ ([["a", "accepted", "Accept"], ["x", "rejected", "Reject"], ["m", "unsure", "Unsure"]]);

/** Ask for a review state: one key each. @param {Target} target */
export function askReview(target) {
  const other = h("input", { type: "text", required: true });
  const buttons = STATES.map(([key, state, label], index) =>
    h("button", { type: "button", autofocus: index === 0, onclick: () => act(state) }, h("kbd", {}, key), ` ${label}`));
  const choices = h("div", {
    class: "choices", role: "group", "aria-label": "Review",
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      const found = STATES.find(([key]) => key === event.key);
      if (found) act(found[1]);
    },
  }, buttons);
  const attempt = askForm(`Review ${many(target)}`, {
    about: which(target), label: "Set this state", fields: [choices, labelled("Another state", other)],
    act: () => review(target, other.value.trim()),
  });
  const act = (/** @type {string} */ state) => void attempt(() => review(target, state));
}

/** @param {Target} target */
export function askTag(target) {
  const name = textField();
  askForm(`Tag ${many(target)}`, {
    about: which(target), label: `Tag ${many(target)}`, fields: [labelled("Tag", name, "-name removes the tag name")],
    act: () => changeTag(target, name.value.trim().replace(/^-/, ""), name.value.trim().startsWith("-")),
  });
}

/** @param {Target} target */
export function askNote(target) {
  const text = textField();
  askForm(`Note about ${many(target)}`, {
    about: which(target), label: `Note about ${many(target)}`, fields: [labelled("Note", text)], act: () => addNote(target, text.value.trim()),
  });
}

/**
 * Ask for a name, and save what passes a filter, or the episodes, as a collection.
 * @param {Target} target
 */
export function askCollection(target) {
  const name = textField();
  askForm(`Save ${many(target)} as a collection`, {
    about: which(target), label: `Save ${many(target)}`, fields: [labelled("Name of the collection", name, "a snapshot: what is in it stays as it is now")],
    act: () => change(`collection ${name.value.trim()}: ${many(target)}`, "/api/collections", { ...target, name: name.value.trim() }),
  });
}

/** Keep a filter as a live collection, of what passes it at any time. @param {string} where */
export function askLiveCollection(where) {
  const name = textField();
  const filter = h("input", { type: "text", class: "code", value: where, required: true });
  if (!where) [name, filter].forEach((input) => input.toggleAttribute("autofocus"));
  askForm("Save a filter", {
    about: "A live collection has what passes its filter at any time.", label: "Save",
    fields: [labelled("Filter", filter), labelled("Name of the live collection", name)],
    act: () => change(`saved the filter ${name.value.trim()}`, "/api/collections", { name: name.value.trim(), where: filter.value.trim(), live: true }),
  });
}

function textField() {
  return h("input", { type: "text", required: true, pattern: ".*\\S.*", title: "some text", autofocus: true });
}
