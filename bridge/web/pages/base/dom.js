// Elements made from values. Text is always text: nothing here reads markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an element. Attributes beginning with "on" are listeners; false and null leave an attribute out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "class") element.className = String(value);
    else if (name === "value") /** @type {HTMLInputElement} */ (/** @type {unknown} */ (element)).value = String(value);
    else if (name === "checked") /** @type {HTMLInputElement} */ (/** @type {unknown} */ (element)).checked = Boolean(value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

// Control characters but tab and line feed, and those that are not seen or turn the direction of what follows.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Text with what one would not see in it written out: a name cannot pose as another one. @param {string} text */
export function visible(text) {
  return text.replace(UNSEEN, (sign) => `⟨U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/**
 * @param {Element} parent
 * @param {(Child | Child[])[]} children
 */
export function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : visible(String(child)));
  }
}

/**
 * Replace everything inside an element. The focus, if it was on something inside, goes to what is drawn in its place.
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  const focused = parent.contains(document.activeElement) && parent !== document.activeElement ? document.activeElement : null;
  const alike = () => /** @type {HTMLElement[]} */ ([...parent.querySelectorAll(focused?.tagName ?? "")]);
  const at = focused ? alike().indexOf(/** @type {HTMLElement} */ (focused)) : -1;
  parent.replaceChildren();
  append(parent, children);
  if (at >= 0) alike().at(Math.min(at, alike().length - 1))?.focus({ preventScroll: true });
}

/**
 * Say something in the corner of the page, and to screen readers.
 * @param {string} text
 * @param {{ error?: boolean, action?: [string, () => void] }} [options]
 */
export function say(text, options = {}) {
  let corner = document.querySelector("#messages");
  if (!corner) {
    corner = h("div", { id: "messages", role: "status", "aria-live": "polite" });
    document.body.append(corner);
  }
  const message = h("div", { class: options.error ? "message error" : "message" }, text);
  if (options.action) {
    const [label, act] = options.action;
    message.append(
      h("button", { onclick: () => { message.remove(); act(); } }, label),
    );
  }
  if (!options.error) corner.querySelectorAll(".message:not(.error)").forEach((one) => one.remove());
  corner.append(message);
  while (corner.children.length > 3) corner.firstElementChild?.remove();
  setTimeout(() => message.remove(), options.error ? 10_000 : 5_000);
}

/**
 * A link or text of which the end is shown where it has no room: names that begin alike end differently.
 * @template {"a" | "span"} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown>} attributes
 * @param {string} text
 */
export function ended(tag, attributes, text) {
  return h(tag, { title: text, ...attributes, class: "ended" }, h("bdi", {}, text));
}

/** Text with what one types, between backticks, as code. @param {string} text @returns {Child[]} */
export function withCode(text) {
  return text.split("`").map((part, place) => (place % 2 ? h("code", {}, part) : part));
}

/**
 * The first picture that can be loaded, as the frames of a camera may be missing; without one it leaves its place.
 * @param {string[]} addresses those that cannot be loaded are taken out, so that no later drawing asks for them
 * @param {Record<string, unknown>} attributes
 */
export function drawPicture(addresses, attributes) {
  const onerror = () => {
    if (addresses[0] === picture.getAttribute("src")) addresses.shift(); // unless another drawing did
    if (addresses.length) picture.setAttribute("src", /** @type {string} */ (addresses[0]));
    else picture.remove();
  };
  const picture = h("img", { src: addresses[0], alt: "", ...attributes, onerror });
  return picture;
}

/**
 * Draw on a canvas at the screen's own resolution; the size is that of its box.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
export function context2d(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * @param {string} name
 * @returns {string} the value of a custom property of the page's theme
 */
export function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * Call `act` once things have been quiet for a while.
 * @template {unknown[]} Args
 * @param {number} milliseconds
 * @param {(...args: Args) => void} act
 * @returns {(...args: Args) => void}
 */
export function debounce(milliseconds, act) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...args), milliseconds);
  };
}
