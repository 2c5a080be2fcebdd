// Columns of the list of episodes: how a field is shown, and which ones are.
import { h } from "../base/dom.js";
import { number, shown } from "../base/format.js";
import { openDialog } from "../base/keys.js";

/** @typedef {import("./table.js").Row} Row */
/** @typedef {import("./table.js").Column} Column */

export const TASK = "meta.task";
export const DEFAULT = ["env", TASK, "length", "reward", "success", "review", "tags", "score.rating"];
const TITLES = /** @type {Record<string, string>} */ ({ env: "Env", reward: "Reward", "score.rating": "Rating" });

/**
 * Ask which columns to show.
 * @param {string[]} columns those that are
 * @param {string[]} fields those of the archive
 * @param {(columns: string[]) => void} onChosen
 */
export function askColumns(columns, fields, onChosen) {
  const offered = [...new Set([...columns, "env", "length", "reward", "success", "review", "tags", "flag",
    ...fields.filter((name) => /^(meta\.|score\.)/.test(name)), "ingested_at", "size", "collection", "path"])];
  const boxes = offered.map((name) => h("label", {}, h("input", { type: "checkbox", name, checked: columns.includes(name) }), name));
  const other = h("input", { type: "text", "aria-label": "Another field", placeholder: "another field, e.g. lane.action/ctrl.max" });
  const form = h("form", {
    method: "dialog",
    onsubmit: () => {
      const picked = boxes.map((box) => /** @type {HTMLInputElement} */ (box.firstElementChild)).filter((box) => box.checked).map((box) => box.name);
      if (other.value.trim()) picked.push(other.value.trim());
      onChosen(picked);
    },
  }, h("div", { class: "columns" }, boxes), other, h("div", { class: "actions" }, h("button", { class: "primary" }, "Show")));
  openDialog("Columns", form);
}

/** @param {string} name @returns {Column} */
export function column(name) {
  const right = ["length", "reward", "size", "id"].includes(name) || name.startsWith("score.") || name.startsWith("lane.");
  const title = TITLES[name] || (name[0].toUpperCase() + name.slice(1)).replace(/^(Meta|Score)\./, "");
  const cell = (/** @type {Row} */ row) => {
    const value = row[name];
    if (name === "tags") return h("span", {}, value.map((/** @type {string} */ tag) => h("span", { class: "tag" }, tag)));
    if (name === "score.rating") return value === null ? "" : "★".repeat(Math.max(0, Math.min(5, value)));
    if (name === "success" && value !== null) return h("span", { class: value ? "yes" : "no" }, shown(value));
    if (name === "review" && value) return h("span", { class: `tag state-${value}` }, value);
    return typeof value === "number" ? number(value) : shown(value);
  };
  const sort = ["tags", "tag", "flag", "collection"].includes(name) ? undefined : name;
  const narrow = ["success", "review", "score.rating", "length", "reward"].includes(name);
  return { name, title, width: narrow ? "72px" : "minmax(70px, 1.2fr)", right, sort, cell };
}
