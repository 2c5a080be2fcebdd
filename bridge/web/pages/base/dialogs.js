// Dialogs: what is asked over the page, one for each action; a failure is shown where it was asked.
import { append, fill, h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * Show something over the page until it is closed. Keys stay inside, and the space bar presses no button but "Close":
 * whoever types without looking changes nothing.
 * @param {string} title
 * @param {...Child} content
 * @returns {HTMLDialogElement}
 */
export function openDialog(title, ...content) {
  const id = `dialog-${Math.random().toString(36).slice(2)}`;
  const dialog = h("dialog", { "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title),
      h("button", { class: "quiet", type: "button", "aria-label": "Close", onclick: () => close(dialog) }, "✕")));
  append(dialog, content);
  const keep = (/** @type {KeyboardEvent} */ event) => {
    event.stopPropagation();
    const button = event.target instanceof HTMLElement && event.target.closest("button:not(.quiet)");
    if (event.key === " " && button) event.preventDefault();
  };
  dialog.addEventListener("keydown", keep);
  dialog.addEventListener("keyup", keep);
  dialog.addEventListener("cancel", () => close(dialog));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Close a dialog, and give the focus back. It is removed at once: until its "close" event comes, the next key would go
 * to a field of it that nobody sees any more.
 * @param {HTMLDialogElement} dialog
 */
function close(dialog) {
  dialog.close();
  dialog.remove();
}

/**
 * A field with its label, and what to know about it.
 * @param {string} label
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} input
 * @param {string} [help]
 */
export function labelled(label, input, help = "") {
  const id = `help-${Math.random().toString(36).slice(2)}`;
  if (help) input.setAttribute("aria-describedby", id);
  return h("div", { class: "field" }, h("label", {}, label, input), help && h("small", { class: "soft", id }, help));
}

/** A button that closes its dialog, and does nothing else. */
export function cancelButton() {
  const button = h("button", { type: "button", onclick: () => close(/** @type {HTMLDialogElement} */ (button.closest("dialog"))) }, "Cancel");
  return button;
}

/**
 * Ask by a form, and act: the dialog closes once that is done, and stays with the reason where it is not.
 * @param {string} title
 * @param {{ about?: string, fields?: Child[], label: string, act: () => Promise<unknown> }} options
 * @returns {(act: () => Promise<unknown>) => Promise<void>} acts in another way, such as by a button of its own
 */
export function askForm(title, { about = "", fields = [], label, act }) {
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { class: "primary", autofocus: !fields.length }, label);
  const attempt = async (/** @type {() => Promise<unknown>} */ run) => {
    if (dialog.ariaBusy) return;
    dialog.ariaBusy = "true";
    fill(problem);
    try {
      await run();
      close(dialog);
    } catch (error) {
      fill(problem, reasonOf(error));
    }
    dialog.ariaBusy = null;
  };
  const form = h("form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void attempt(act); } },
    about && h("p", { class: "soft" }, about), ...fields, problem, h("div", { class: "actions" }, cancelButton(), button));
  const dialog = openDialog(title, form);
  return attempt;
}

/** @param {unknown} error */
export function reasonOf(error) {
  return error instanceof Error ? error.message : String(error);
}
