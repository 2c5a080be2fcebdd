// Fields as heads of columns and facets: what filters call `meta."arm type"` is "Arm type".

const TITLES = /** @type {Record<string, string>} */ ({ env: "Environment", "meta.task": "Task", reward: "Total reward" });
const OWN = /^(?:meta|score)\.(?=.)/;
const PART = /"((?:[^"\\]|\\.)*)"|[^."]+/g;
const COMMON = ["environment", "folder", "file", "location", "format", "length", "reward", "review", "tag", "tags", "flag", "collection", "success"];

/**
 * @param {string} name of a field, as filters write it
 * @param {Record<string, string>} [others] titles that are others here
 * @returns {string} what people read; a key that has the name of another field is written as filters do
 */
export function titleOf(name, others = {}) {
  const title = others[name] ?? TITLES[name];
  if (title) return title;
  if (!OWN.test(name)) return capital(name);
  const text = keysOf(name).join(".");
  return COMMON.includes(text.toLowerCase()) ? name : capital(text);
}

/** The keys that a field of metadata names, one in the other. @param {string} name @returns {string[]} */
export function keysOf(name) {
  return [...name.replace(OWN, "").matchAll(PART)].map(([plain, quoted]) => (quoted === undefined ? plain : quoted.replace(/\\(.)/gs, "$1")));
}

/** @param {string} text */
function capital(text) {
  const [first = "", ...rest] = text.replaceAll("_", " ");
  return first.toUpperCase() + rest.join("");
}
