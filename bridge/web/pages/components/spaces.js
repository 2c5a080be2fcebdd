// The Spaces whose vectors stand for whole episodes: vectors of different ones cannot be compared.
import { get } from "../base/api.js";
import { fill, h } from "../base/dom.js";
import { plural } from "../base/format.js";
import { readState } from "../base/url_state.js";

/** @typedef {import("../base/api.js").Json} Json */

/**
 * Offer the Spaces in a list, that of the address or with most episodes chosen: what is found is of that Space alone.
 * @param {HTMLSelectElement} list
 */
export async function offerSpaces(list) {
  const found = await get("/api/spaces");
  const whole = found.items.filter((/** @type {Json} */ one) => one.windows === "whole episodes" && one.state === "active" && one.episodes > 0);
  whole.sort((/** @type {Json} */ a, /** @type {Json} */ b) => b.episodes - a.episodes);
  fill(list, whole.map((/** @type {Json} */ one) => h("option", { value: one.space.slice(0, 12) }, `${one.embedder}: ${one.lanes.join(", ")}, ${one.dim} numbers (${plural(one.episodes, "episode")})`)));
  list.value = readState().get("space") || whole[0]?.space.slice(0, 12) || "";
  list.hidden = !whole.length;
  list.disabled = whole.length < 2;
}
