// The filter language as text: its top-level parts, and how facets and brushes change it. The server reads it for good.

/**
 * @typedef {{ text: string, start: number, end: number, field: string }} Part
 */

const FIELD = /^-?([A-Za-z_]\w*(?:\.(?:"(?:[^"\\]|\\.)*"|[\p{L}\p{N}_/+-]+))*(?:\[\d+\])?):/su;
const WORDS = /^(?:OR|AND|NOT)$|^(?:true|false|yes|no)$/i; // that mean something else: metadata may have "true" as text

/**
 * Split a filter at its spaces, outside of quotes and parentheses.
 * @param {string} text
 * @returns {Part[]}
 */
export function partsOf(text) {
  /** @type {Part[]} */
  const parts = [];
  let start = -1;
  let depth = 0;
  let quoted = false;
  for (let at = 0; at <= text.length; at += 1) {
    const sign = text[at];
    const ends = at === text.length || (!quoted && depth === 0 && /\s/.test(sign));
    if (ends) {
      if (start >= 0) {
        const part = text.slice(start, at);
        parts.push({ text: part, start, end: at, field: FIELD.exec(part)?.[1] || "" });
      }
      start = -1;
      continue;
    }
    if (start < 0) start = at;
    if (sign === "\\" && quoted) at += 1;
    else if (sign === '"') quoted = !quoted;
    else if (!quoted && sign === "(") depth += 1;
    else if (!quoted && sign === ")") depth = Math.max(0, depth - 1);
  }
  return parts;
}

/**
 * Whether parts stand beside one another: with OR between them none can be taken out.
 * @param {string} text
 */
function isPlain(text) {
  return !partsOf(text).some((part) => part.text === "OR" || part.text === "NOT" || part.text === "AND");
}

/**
 * @param {string | number | boolean} value
 * @returns {string} the value as filters write it
 */
export function quoteValue(value) {
  const text = String(value);
  if (typeof value !== "string") return text;
  if (/^[A-Za-z][\w./+-]*$/.test(text) && !/\.\./.test(text) && !WORDS.test(text)) return text;
  return `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"')}"`;
}

/**
 * The values that a filter lists for a field as `field:a,b`; none where it compares in another way.
 * @param {string} text
 * @param {string} field
 * @returns {string[]} as they are written
 */
export function valuesOf(text, field) {
  if (!isPlain(text)) return [];
  const part = partsOf(text).find((one) => one.field === field && !one.text.startsWith("-"));
  return part ? splitValues(part.text.slice(field.length + 1)) : [];
}

/** @param {string} list */
function splitValues(list) {
  return list.match(/"(?:[^"\\]|\\.)*"|[^,]+/g) || [];
}

/**
 * Add a value to those of a field, or take it out.
 * @param {string} text
 * @param {string} field
 * @param {string | number | boolean | null} value null: episodes without one
 * @returns {string}
 */
export function toggleValue(text, field, value) {
  if (value === null) {
    const missing = `-${field}:*`;
    const has = partsOf(text).some((part) => part.text === missing);
    return has ? withoutPart(text, (part) => part.text === missing) : join(withoutField(text, field), missing);
  }
  const written = quoteValue(value);
  const known = valuesOf(text, field);
  const next = known.includes(written) ? known.filter((one) => one !== written) : [...known, written];
  const rest = withoutPart(text, (part) => part.field === field && !part.text.startsWith("-"));
  const plain = withoutPart(rest, (part) => part.text === `-${field}:*`);
  return next.length ? join(plain, `${field}:${next.join(",")}`) : plain;
}

/**
 * Have a field lie in a range; with neither end the range is taken out.
 * @param {string} text
 * @param {string} field
 * @param {number | null} low
 * @param {number | null} high
 */
export function setRange(text, field, low, high) {
  const rest = withoutField(text, field);
  if (low === null && high === null) return rest;
  const range = low === null ? `<=${high}` : high === null ? `>=${low}` : `${low}..${high}`;
  return join(rest, `${field}:${range}`);
}

/**
 * @param {string} text
 * @param {string} field
 * @returns {string} the filter without what it says of the field
 */
export function withoutField(text, field) {
  return withoutPart(text, (part) => part.field === field);
}

/**
 * @param {string} text
 * @param {(part: Part) => boolean} goes
 */
function withoutPart(text, goes) {
  if (!isPlain(text)) return text.trim();
  return partsOf(text).filter((part) => !goes(part)).map((part) => part.text).join(" ");
}

/**
 * @param {string} text
 * @param {string} part
 */
function join(text, part) {
  const plain = isPlain(text) ? text.trim() : `(${text.trim()})`;
  return plain ? `${plain} ${part}` : part;
}

/**
 * The part of a filter that the caret stands in, up to the caret: what is being typed.
 * @param {string} text
 * @param {number} caret
 * @returns {{ start: number, field: string, typed: string }} field: "" while the field's name is typed
 */
export function typedAt(text, caret) {
  const part = partsOf(text.slice(0, caret)).at(-1);
  if (!part || part.end !== caret) return { start: caret, field: "", typed: "" };
  const inner = part.text.match(/^[-(]*/)?.[0].length || 0;
  const body = part.text.slice(inner);
  const field = FIELD.exec(body)?.[1];
  if (!field) return { start: part.start + inner, field: "", typed: body };
  const values = body.slice(field.length + 1);
  const last = splitValues(values).at(-1) || "";
  const typed = values.endsWith(",") ? "" : last;
  return { start: caret - typed.length, field, typed };
}
