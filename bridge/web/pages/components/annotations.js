// Changes that people make: each can be undone, one after another, also on the pages that one goes to next.
import { ApiError, get, post } from "../base/api.js";
import { h, say } from "../base/dom.js";
import { plural } from "../base/format.js";
import { askText, confirmed, openDialog } from "../base/keys.js";

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

/** What this tab has changed, each with the number by which the server takes it back. @returns {{ label: string, undo: number }[]} */
function changesDone() {
  return JSON.parse(sessionStorage.getItem(DONE) || "[]");
}

/**
 * Change something; undoing takes back what this call has changed, and nothing else.
 * @param {string} label
 * @param {string} path
 * @param {import("../base/api.js").Json} body
 */
async function change(label, path, body) {
  try {
    const { undo } = await post(path, body);
    if (undo) sessionStorage.setItem(DONE, JSON.stringify([...changesDone(), { label, undo }].slice(-MOST)));
    say(label, undo ? { action: ["Undo", () => void undoLast()] } : {});
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), { error: true });
    return;
  }
  for (const act of watchers) act();
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
  const names = others.slice(0, NAMED).map((/** @type {import("../base/api.js").Json} */ one) => one.episode_id || one.uid).join(", ");
  const more = total > NAMED ? ` and ${total - NAMED} more` : "";
  say(`undone in ${plural(episodes, "episode")}: ${label}; changed by others since, and left as it is: ${names}${more}`, { error: true });
}

/** Take the last change back, where nobody has changed the same since. */
export async function undoLast() {
  const done = changesDone();
  const last = done.pop();
  if (!last) {
    say("nothing to undo");
    return;
  }
  sessionStorage.setItem(DONE, JSON.stringify(done));
  try {
    sayUndone(last.label, await post("/api/undos", { undo: last.undo }));
  } catch (error) {
    if (error instanceof ApiError && error.status !== 409) sessionStorage.setItem(DONE, JSON.stringify([...done, last]));
    say(error instanceof Error ? error.message : String(error), { error: true });
  }
  for (const act of watchers) act();
}

/** @param {Target} target */
function many(target) {
  return plural("episodes" in target ? target.episodes.length : target.expect, "episode");
}

/** @param {Target} target @param {string} name @param {boolean} [off] */
export function tag(target, name, off = false) {
  return change(`${off ? `untagged ${name}:` : `tagged ${name}:`} ${many(target)}`, "/api/tags", { ...target, name, remove: off });
}

/** @param {Target} target @param {string} state */
export function review(target, state) {
  return change(`${state}: ${many(target)}`, "/api/reviews", { ...target, state });
}

/** Rate episodes from 1 to 5. @param {string[]} episodes @param {number} value */
export function rate(episodes, value) {
  return change(`rated ${"★".repeat(value)}: ${plural(episodes.length, "episode")}`, "/api/scores", { episodes, name: "rating", value });
}

/** @param {Target} target @param {string} text */
export function note(target, text) {
  return change(`noted: ${many(target)}`, "/api/notes", { ...target, text });
}

/** @type {[string, string][]} */
const STATES = [["a", "accepted"], ["x", "rejected"], ["u", "unsure"]];

/** Ask for a review state: one key each. @param {Target} target */
export function askReview(target) {
  const buttons = STATES.map(([key, state], index) =>
    h("button", { autofocus: index === 0, onclick: () => { dialog.close(); void review(target, state); } },
      h("kbd", {}, key), ` ${state}`));
  const other = h("input", { type: "text", "aria-label": "Another state", placeholder: "another state" });
  const form = h("form", {
    onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      if (!other.value.trim()) return;
      dialog.close();
      void review(target, other.value.trim());
    },
  }, other);
  const dialog = openDialog(`Review ${many(target)}`, h("div", { class: "choices" }, buttons), form);
  dialog.addEventListener("keydown", (event) => {
    if (event.target === other) return;
    const found = STATES.find(([key]) => key === event.key);
    if (!found) return;
    event.preventDefault();
    dialog.close();
    void review(target, found[1]);
  });
}

/** @param {Target} target */
export async function askTag(target) {
  const name = await askText(`Tag ${many(target)}`, "Tag (with a leading - to remove it)");
  if (name) await (name.startsWith("-") ? tag(target, name.slice(1), true) : tag(target, name));
}

/** @param {Target} target */
export async function askNote(target) {
  const text = await askText(`Note about ${many(target)}`, "Note");
  if (text) await note(target, text);
}

/**
 * Ask for a name, and save what passes a filter, or the episodes, as a collection.
 * @param {Target} target
 */
export async function askCollection(target) {
  const name = await askText(`Save ${many(target)} as a collection`, "Name of the collection");
  if (name) await change(`collection ${name}: ${many(target)}`, "/api/collections", { ...target, name });
}

/** Keep a filter as a live collection. @param {string} where */
export async function askSavedSearch(where) {
  const name = await askText("Save this search", "Name of the live collection");
  if (name) await change(`saved the search ${name}`, "/api/collections", { name, where, live: true });
}

/**
 * Have somebody confirm a change of everything that passes a filter, with how many that is.
 * @param {string} where
 * @param {string} what
 * @returns {Promise<Target | null>}
 */
export async function confirmAll(where, what) {
  const { total } = await get("/api/count", { where });
  const told = where ? `pass the filter ${where}` : "are in the archive";
  const sure = await confirmed(what, `${plural(total, "episode")} ${told}. All of them will be changed.`, `Change ${plural(total, "episode")}`);
  return sure ? { where, expect: total } : null;
}
