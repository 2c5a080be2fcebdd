// Numbers, sizes and times as people read them.

/**
 * @param {unknown} value
 * @returns {string}
 */
export function shown(value) {
  if (value === null || value === undefined) return "";
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return value.map(shown).join(", ");
  return typeof value === "object" ? Object.entries(value).map(([name, part]) => `${name} ${shown(part)}`).join(", ") : String(value);
}

/**
 * @param {number} value
 * @returns {string} four significant digits, whole numbers in full
 */
export function number(value) {
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  return size >= 1e6 || (size < 1e-5 && size > 0) ? value.toExponential(3) : String(Number(value.toPrecision(4)));
}

/** @param {number} value @returns {string} as it would be typed: seeds and ids have no thousands */
export function plain(value) {
  return Number.isInteger(value) ? String(value) : number(value);
}

/** @param {string} at a time as the archive writes it, in UTC @returns {string} */
export function moment(at) {
  return at.slice(0, 16).replace("T", " ");
}

/** @param {number} count @param {string} what */
export function plural(count, what) {
  return `${count.toLocaleString("en-US")} ${what}${count === 1 ? "" : "s"}`;
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  let value = bytes;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at ? value.toPrecision(3) : value} ${units[at]}`;
}

/** @param {number} seconds */
export function clock(seconds) {
  const whole = Math.max(0, seconds);
  const minutes = Math.floor(whole / 60);
  return `${minutes}:${(whole - 60 * minutes).toFixed(2).padStart(5, "0")}`;
}
