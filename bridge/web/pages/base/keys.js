// Keys of a page: one table, which the help shows. Not while somebody types.
import { openDialog } from "./dialogs.js";
import { h, say } from "./dom.js";

/** @typedef {{ key: string, about: string, act: (event: KeyboardEvent) => void, changes?: boolean, everywhere?: boolean }} Key */

/** @type {Key[]} */
const known = [];

/**
 * @param {string} key one key, as KeyboardEvent names it ("j", " ", "ArrowLeft", "Shift+ArrowLeft")
 * @param {string} about
 * @param {(event: KeyboardEvent) => void} act
 */
export function onKey(key, about, act) {
  known.unshift({ key, about, act });
}

/**
 * A key that changes the archive: a read-only account is told so instead.
 * @param {string} key
 * @param {string} about
 * @param {(event: KeyboardEvent) => void} act
 */
export function onChangeKey(key, about, act) {
  known.unshift({ key, about, act, changes: true });
}

function isReader() {
  return document.body.dataset.role === "reader";
}

/** @param {EventTarget | null} target */
export function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "range", "button"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

/** Begin to listen. */
export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const pressed = event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
    const button = event.target instanceof HTMLElement && event.target.closest("button, a, summary, input");
    if (button && (event.key === " " || event.key === "Enter")) return;
    const found = known.find((one) => one.key === pressed);
    if (!found) return;
    event.preventDefault();
    if (found.changes && isReader()) say("expected an account that may change the archive: this one is read-only");
    else found.act(event);
  });
  onKey("?", "show these keys", showKeys);
}

/** Let the help name the keys so far, which all pages have, after those that a page adds. */
export function endCommonKeys() {
  for (const one of known) one.everywhere = true;
}

const NAMES = /** @type {Record<string, string>} */ ({ " ": "space", ArrowLeft: "←", ArrowRight: "→", Escape: "esc" });

/** Show the table of keys. */
export function showKeys() {
  const seen = new Set();
  const rows = known
    .filter((one) => !seen.has(one.key) && seen.add(one.key) && !(one.changes && isReader()))
    .reverse()
    .sort((one, other) => Number(!!one.everywhere) - Number(!!other.everywhere))
    .map((one) => h("tr", {}, h("td", {}, h("kbd", {}, one.key.split("+").map((part) => NAMES[part] || part).join("+") || one.key)), h("td", {}, one.about)));
  openDialog("Keys", h("table", { class: "keys" }, h("tbody", {}, rows)));
}
