// Columns of the list of episodes: how a field is shown, and which ones are.
import { askForm, labelled } from "../base/dialogs.js";
import { ended, fill, h } from "../base/dom.js";
import { number, plural, shown } from "../base/format.js";
import { briefNames, locationOf } from "../model/brief.js";
import { titleOf } from "../model/field_names.js";
import { leastWidth } from "./table.js";

/** @typedef {import("./table.js").Row} Row */
/** @typedef {import("./table.js").Column} Column */

const USUAL = ["env", "meta.task", "format", "path", "length", "reward", "success", "review", "tags", "score.rating"];
const MARGIN = 28; // around the list, in pixels
const MOST = 300; // fields that the dialog lists at once
const TITLES = { path: "Location", reward: "Reward" };

/** The columns that are shown where nobody has chosen others. @param {string[]} [telling] those in which episodes differ */
export function usualColumns(telling) {
  return telling ? USUAL.filter((name) => telling.includes(name) || (name === "path" && telling.includes("folder"))) : USUAL;
}

/**
 * Show the most telling columns for which a window has room; "Columns" shows others, and the list scrolls sideways.
 * @param {Column[]} columns
 * @param {number} width
 * @param {string[]} telling those in which episodes differ, the most telling first
 */
export function fitting(columns, width, telling) {
  const ranked = [...new Set(telling.map((name) => (name === "folder" ? "path" : name)))];
  let left = columns.filter((one) => !ranked.includes(one.name));
  for (const name of ranked) {
    const more = columns.filter((one) => one.name === name || left.includes(one));
    if (leastWidth(more) <= width - MARGIN) left = more;
  }
  return left;
}

/**
 * Ask which columns to show: any field of the archive, found by its name.
 * @param {string[]} columns those that are
 * @param {string[]} fields those of the archive
 * @param {(columns: string[]) => void} onChosen given none: those by default
 */
export function askColumns(columns, fields, onChosen) {
  const chosen = new Set(columns);
  const known = [...new Set([...columns, "tags", ...fields])];
  const list = h("div", { class: "checks", role: "group", "aria-label": "Fields" });
  const more = h("p", { class: "soft", role: "status" });
  const draw = () => {
    const text = search.value.trim();
    const found = known.filter((name) => name.toLowerCase().includes(text.toLowerCase()));
    if (text && !found.length) found.push(text);
    fill(list, found.slice(0, MOST).map((name) => h("label", { title: name }, h("input", {
      type: "checkbox", checked: chosen.has(name),
      onchange: () => { if (!chosen.delete(name)) chosen.add(name); },
    }), h("span", {}, name))));
    fill(more, found.length > MOST ? `${number(found.length - MOST)} more: type a part of the name` : `${plural(found.length, "field")}`);
  };
  const search = h("input", { type: "search", autofocus: true, autocomplete: "off", placeholder: "such as size, meta. or .max", oninput: draw });
  const attempt = askForm("Columns", {
    label: "Show these", act: async () => onChosen([...chosen].sort((one, other) => Number(columns.includes(one)) - Number(columns.includes(other)))), // new ones are in sight
    fields: [labelled("Find a field", search), list, more,
      h("button", { type: "button", class: "link", onclick: () => void attempt(async () => onChosen([])) }, "Back to the usual columns")],
  });
  draw();
}

/** @param {string} name @returns {Column} */
export function column(name) {
  const right = ["length", "reward", "size", "id"].includes(name) || name.startsWith("score.") || name.startsWith("lane.");
  const title = titleOf(name, TITLES);
  const cell = (/** @type {Row} */ row) => {
    const value = row[name];
    if (name === "tags") return h("span", {}, value.map((/** @type {string} */ tag) => h("span", { class: "tag" }, tag)));
    if (name === "score.rating") return value === null ? "" : "★".repeat(Math.max(0, Math.min(5, value)));
    if (name === "success" && value !== null) return h("span", { class: value ? "yes" : "no" }, shown(value));
    if (name === "review" && value) return h("span", { class: `tag state-${value}` }, value);
    if (name === "format" && value) return h("span", { title: value }, briefNames([value]).get(value));
    if (name === "path") return ended("span", { title: value }, locationOf({ root: row.root, path: value, key: row.key }, row.episode_id));
    return h("span", { title: typeof value === "string" ? value : null }, typeof value === "number" ? number(value) : shown(value));
  };
  const sort = ["tags", "tag", "flag", "collection"].includes(name) ? undefined : name;
  const narrow = ["review", "score.rating", "length", "reward", "format"].includes(name);
  const width = narrow ? "68px" : name === "success" ? "80px" : ["meta.task", "path"].includes(name) ? "minmax(112px, 2fr)" : "minmax(112px, 1.2fr)";
  return { name, title, width, right, sort, cell };
}
