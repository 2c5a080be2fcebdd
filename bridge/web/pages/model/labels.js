// What an episode is, in few words next to its name: texts in which the episodes of the archive differ.
import { keysOf } from "./field_names.js";

/** @typedef {Record<string, any>} Json */

/**
 * @param {Json} row of a list, by the names of its columns; or an episode or hit, with its metadata
 * @param {string} name of a field of texts: the environment, or of the metadata
 * @returns {string} "" where it has none
 */
export function textOf(row, name) {
  const value = name in row ? row[name] : name === "env" ? row.env_id ?? row.metadata?.env_id : keysOf(name).reduce((inner, key) => inner?.[key], row.metadata);
  return typeof value === "string" ? value : "";
}

/** @param {Json} row as textOf @param {string[]} [names] of fields @returns {string} */
export function labelOf(row, names = ["env", "meta.task"]) {
  return [...new Set(names.map((name) => textOf(row, name)).filter(Boolean))].join(" · ");
}
