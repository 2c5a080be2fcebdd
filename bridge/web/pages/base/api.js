// The JSON API: every value that a page shows comes from here.

/** @typedef {Record<string, any>} Json */

/** An answer that is a refusal. position: where a filter is wrong. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {Json} told
   */
  constructor(status, told) {
    super(told.message || `the server answered ${status}`);
    this.status = status;
    this.kind = told.error || "";
    /** @type {number | undefined} */
    this.position = told.position;
  }
}

/**
 * @param {string} path
 * @param {Record<string, unknown>} [parameters]
 */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/**
 * @param {string} path
 * @param {Record<string, unknown>} [parameters]
 * @param {AbortSignal} [signal]
 * @returns {Promise<Json>}
 */
export function get(path, parameters = {}, signal) {
  return ask(address(path, parameters), { signal });
}

/** The fields that say what an episode is, or its environment alone where nobody knows. @returns {Promise<string[]>} */
export function readLabels() {
  return get("/api/fields").then(({ labels }) => labels, () => ["env"]);
}

/**
 * @param {string} path
 * @param {Json} body
 * @param {AbortSignal} [signal]
 * @returns {Promise<Json>}
 */
export function post(path, body, signal) {
  return change("POST", path, body, signal);
}

/**
 * @param {string} path
 * @returns {Promise<Json>}
 */
export function remove(path) {
  return change("DELETE", path);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Json} [body]
 * @param {AbortSignal} [signal]
 */
function change(method, path, body, signal) {
  return ask(path, {
    method,
    signal,
    headers: { "Content-Type": "application/json", "X-CSRF-Token": token() },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
}

function token() {
  return document.querySelector("meta[name=csrf]")?.getAttribute("content") || "";
}

/**
 * Send a file as it is.
 * @param {string} path
 * @param {File} file
 * @returns {Promise<Json>}
 */
export function upload(path, file) {
  return ask(address(path, { name: file.name }), { method: "POST", headers: { "X-CSRF-Token": token() }, body: file });
}

/**
 * @param {string} url
 * @param {RequestInit} options
 * @returns {Promise<Json>}
 */
async function ask(url, options) {
  let answer;
  try {
    answer = await fetch(url, options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "the server does not answer: is `wshard serve` still running?" });
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    if (answer.status === 401) location.assign(address("/login", { next: location.pathname + location.search }));
    throw new ApiError(answer.status, told);
  }
  return told;
}

/**
 * Whether an error is only that nobody waits for the answer any more.
 * @param {unknown} error
 */
export function isAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Whether a query was uploaded or drawn: it is no episode of the archive. @param {string} uid */
export function isUpload(uid) {
  return uid.startsWith("upload-");
}

/** @param {string} uid */
export function episodePath(uid) {
  return `/episodes/${encodeURIComponent(uid)}`;
}

/**
 * @param {string} uid
 * @param {string} lane
 * @param {number} step
 * @param {number} [width]
 */
export function pictureUrl(uid, lane, step, width) {
  const named = lane.split("/").map(encodeURIComponent).join("/");
  return address(`/api/episodes/${encodeURIComponent(uid)}/pictures/${step}/${named}`, { width });
}
