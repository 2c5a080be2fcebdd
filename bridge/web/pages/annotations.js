// Changes that people make: each can be undone, one after another.
import { get, post } from "./api.js";
import { h, say } from "./dom.js";
import { askText, confirmed, openDialog } from "./keys.js";
import { plural } from "./format.js";

/** @typedef {{ episodes: string[] } | { where: string, expect: number }} Target */

/** @type {{ label: string, undo: () => Promise<unknown> }[]} */
const done = [];
/** @type {Set<() => void>} */
const watchers = new Set();

/** Call `act` after every change. @param {() => void} act */
export function afterChange(act) {
  watchers.add(act);
}

/**
 * @param {string} label
 * @param {() => Promise<unknown>} act
 * @param {(() => Promise<unknown>) | null} undo
 */
async function change(label, act, undo) {
  try {
    await act();
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), { error: true });
    return false;
  }
  if (undo) done.push({ label, undo });
  say(label, undo ? { action: ["Undo", () => void undoLast()] } : {});
  for (const act of watchers) act();
  return true;
}

/** Take the last change back. */
export async function undoLast() {
  const last = done.pop();
  if (!last) {
    say("nothing to undo");
    return;
  }
  try {
    await last.undo();
    say(`undone: ${last.label}`);
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), { error: true });
  }
  for (const act of watchers) act();
}

/** @param {Target} target */
function many(target) {
  return plural("episodes" in target ? target.episodes.length : target.expect, "episode");
}

/**
 * Change tags, notes or reviews; undoing takes back what this call has changed, and nothing else.
 * @param {string} label
 * @param {string} path
 * @param {import("./api.js").Json} body
 */
function changeMany(label, path, body) {
  let number = 0;
  return change(label, async () => { number = (await post(path, body)).undo; }, () => post("/api/undos", { undo: number }));
}

/** @param {Target} target @param {string} name @param {boolean} [off] */
export function tag(target, name, off = false) {
  return changeMany(`${off ? `tag ${name} off` : `tagged ${name}:`} ${many(target)}`, "/api/tags", { ...target, name, remove: off });
}

/** @param {Target} target @param {string} state */
export function review(target, state) {
  return changeMany(`${state}: ${many(target)}`, "/api/reviews", { ...target, state });
}

/**
 * Rate episodes from 1 to 5.
 * @param {string[]} uids
 * @param {number} value
 * @param {(number | null)[]} before what they were rated
 */
export function rate(uids, value, before) {
  const back = () => Promise.all(uids.map((uid, index) =>
    post("/api/scores", { episodes: [uid], name: "rating", value: before[index] ?? undefined })));
  return change(`rated ${"★".repeat(value)}: ${plural(uids.length, "episode")}`,
    () => post("/api/scores", { episodes: uids, name: "rating", value }), back);
}

/** @param {Target} target @param {string} text */
export function note(target, text) {
  return changeMany(`noted: ${many(target)}`, "/api/notes", { ...target, text });
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
  const name = await askText(`Tag ${many(target)}`, "Tag (with - before it: take it off)");
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
  if (name) await change(`collection ${name}: ${many(target)}`, () => post("/api/collections", { ...target, name }), null);
}

/** Keep a filter as a live collection. @param {string} where */
export async function askSavedSearch(where) {
  const name = await askText("Save this search", "Name of the live collection");
  if (name) await change(`saved the search ${name}`, () => post("/api/collections", { name, where, live: true }), null);
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
