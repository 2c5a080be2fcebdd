// Places and layouts in little room: their ends, which tell them apart.

/** A format without its options: those of a layout say how files are read, and are long. @param {string} value */
function withoutOptions(value) {
  const [, name, options] = /^(layout:[^?]*)\?(.*)$/s.exec(value) ?? ["", value, ""];
  if (name !== "layout:guess") return name;
  const [, container] = /^container = "(\w+)"/m.exec(decodeURIComponent(options)) ?? [];
  return `${container ?? "layout"}, guessed`;
}

/**
 * @param {string[]} values with slashes in them, or not
 * @param {number} [least] parts of a path that are shown anyway
 * @returns {Map<string, string>} by value the shortest end that no other value has
 */
export function briefNames(values, least = 1) {
  const cut = (/** @type {string} */ given, /** @type {number} */ parts) => {
    const value = withoutOptions(given);
    const [, kind, path] = /^([a-z]+:(?=\/))?(.*)$/s.exec(value) ?? ["", "", value];
    const all = path.split("/");
    return all.length > parts ? `${kind ?? ""}${all.slice(-parts).join("/")}` : value;
  };
  return new Map(values.map((value) => {
    let parts = least;
    while (cut(value, parts) !== withoutOptions(value) && values.some((other) => other !== value && cut(other, parts) === cut(value, parts))) parts += 1;
    return [value, cut(value, parts)];
  }));
}

/**
 * Where an episode is: the folder that was ingested, the file below it, and its place in the file.
 * @param {{ root: string, path: string, key: string }} row
 * @param {string} [name] of the episode, if it stands beside it: a file of that name is left out
 */
export function locationOf({ root, path, key }, name) {
  const below = path.slice(root.length);
  const [, folders, stem] = /^(.*)\/([^/]*?)(?:\.[^/.]*)?$/s.exec(below) ?? [];
  return `${root.split("/").at(-1)}${!key && name && stem === name ? folders : below}${key ? `#${key}` : ""}`;
}
