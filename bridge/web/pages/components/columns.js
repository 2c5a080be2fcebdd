// Columns of the list of episodes: how a field is shown, and which ones are.
import { askForm, labelled } from "../base/dialogs.js";
import { fill, h } from "../base/dom.js";
import { number, plural, shown } from "../base/format.js";
import { leastWidth } from "./table.js";

/** @typedef {import("./table.js").Row} Row */
/** @typedef {import("./table.js").Column} Column */

const USUAL = ["env", "meta.task", "format", "path", "length", "reward", "success", "review", "tags", "score.rating"];
const LEAST_TELLING = ["format", "path", "meta.task", "env", "tags", "score.rating"];
const MARGIN = 28; // around the list, in pixels
const MOST = 300; // fields that the dialog lists at once
const TITLES = /** @type {Record<string, string>} */ ({ env: "Environment", "meta.task": "Task", path: "Location" });

/** The columns that are shown where nobody has chosen others. @param {string[]} [telling] those in which episodes differ */
export function usualColumns(telling) {
  const place = telling?.includes("root") ? ["path"] : []; // in several folders
  return telling ? USUAL.filter((name) => name === "length" || telling.includes(name) || place.includes(name)) : USUAL;
}

/**
 * Leave out what tells least where a window is too narrow for all; "Columns" shows it, and the list scrolls sideways.
 * @param {Column[]} columns
 * @param {number} width
 */
export function fitting(columns, width) {
  let left = columns;
  for (const name of LEAST_TELLING) {
    if (leastWidth(left) <= width - MARGIN) break;
    left = left.filter((one) => one.name !== name);
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
    label: "Show these", act: async () => onChosen([...chosen]),
    fields: [labelled("Find a field", search), list, more,
      h("button", { type: "button", class: "link", onclick: () => void attempt(async () => onChosen([])) }, "Back to the usual columns")],
  });
  draw();
}

/** Where an episode is: the folder that was ingested, the file below it, and its place in the file. @param {Row} row */
function locationOf({ root, path, key }) {
  const folder = root.split("/").at(-1);
  return `${folder}${path.slice(root.length)}${key ? `#${key}` : ""}`;
}

/** @param {string} name @returns {Column} */
export function column(name) {
  const right = ["length", "reward", "size", "id"].includes(name) || name.startsWith("score.") || name.startsWith("lane.");
  const plain = name.replace(/^(meta|score)\./, "");
  const title = TITLES[name] || plain[0].toUpperCase() + plain.slice(1).replaceAll("_", " ");
  const cell = (/** @type {Row} */ row) => {
    const value = row[name];
    if (name === "tags") return h("span", {}, value.map((/** @type {string} */ tag) => h("span", { class: "tag" }, tag)));
    if (name === "score.rating") return value === null ? "" : "★".repeat(Math.max(0, Math.min(5, value)));
    if (name === "success" && value !== null) return h("span", { class: value ? "yes" : "no" }, shown(value));
    if (name === "review" && value) return h("span", { class: `tag state-${value}` }, value);
    if (name === "path") return h("span", { title: value }, locationOf(row));
    return h("span", { title: typeof value === "string" ? value : null }, typeof value === "number" ? number(value) : shown(value));
  };
  const sort = ["tags", "tag", "flag", "collection"].includes(name) ? undefined : name;
  const narrow = ["success", "review", "score.rating", "length", "reward", "format"].includes(name);
  const width = narrow ? "72px" : ["meta.task", "path"].includes(name) ? "minmax(120px, 2fr)" : "minmax(104px, 1.2fr)";
  return { name, title, width, right, sort, cell };
}
