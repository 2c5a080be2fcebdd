// The box for a filter: completion of fields and values, and mistakes shown at their character.
import { ApiError, get } from "../base/api.js";
import { debounce, fill, h } from "../base/dom.js";
import { partsOf, quoteValue, typedAt } from "../model/filter_text.js";

/** @typedef {{ name: string, type: string | null, many: boolean, operators: string[] }} Field */

const PATIENCE_MS = 1500;

export class FilterBox {
  /**
   * @param {{ label: string, onChange: (text: string, first: boolean) => void }} options first: since one began to type
   */
  constructor({ label, onChange }) {
    this.onChange = onChange;
    /** @type {Field[]} */
    this.fields = [];
    this.at = -1;
    this.isEntered = false; // as it is
    /** @type {ApiError | null} */
    this.mistake = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.waiting = undefined;
    /** @type {{ start: number, words: { text: string, about: string }[] }} */
    this.offered = { start: 0, words: [] };
    this.list = h("ul", { id: "filter-words", role: "listbox", "aria-label": "Completions", class: "words", hidden: true });
    this.problem = h("output", { class: "problem", role: "alert" });
    this.input = h("input", {
      type: "search",
      id: "filter",
      "aria-label": label,
      placeholder: label,
      autocomplete: "off",
      spellcheck: "false",
      role: "combobox",
      "aria-expanded": "false",
      "aria-controls": "filter-words",
      "aria-autocomplete": "list",
      oninput: () => this.typed(),
      onclick: () => this.typed(),
      onblur: () => {
        this.begun = false;
        this.showMistake();
        setTimeout(() => this.close(), 150);
      },
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.pressed(event),
    });
    this.element = h("div", { class: "filter" }, this.input, this.list, this.problem);
    this.complete = debounce(120, () => void this.offer());
    this.begun = false;
    this.changed = debounce(350, () => this.give());
  }

  /**
   * Complete these fields, also what was typed before they were known, and give an example of the archive.
   * @param {import("../base/api.js").Json} found what /api/fields answers
   */
  setFields({ items, example }) {
    this.fields = items;
    if (example) this.input.placeholder = `such as ${example}`;
    this.complete();
  }

  /** @param {string} text */
  set(text) {
    if (this.input.value.trim() !== text) this.input.value = text;
  }

  typed() {
    this.isEntered = false;
    this.report(null);
    this.complete();
    this.changed();
  }

  give() {
    const first = !this.begun;
    this.begun = true;
    this.onChange(this.input.value.trim(), first);
  }

  /** Show a mistake, or none; one in the word that is being typed waits for a pause. @param {unknown} error */
  report(error) {
    clearTimeout(this.waiting);
    this.mistake = error instanceof ApiError ? error : null;
    fill(this.problem);
    this.input.removeAttribute("aria-invalid");
    if (!this.mistake) return;
    if (this.isEntered || document.activeElement !== this.input) {
      this.showMistake();
      return;
    }
    const typed = this.input.value.slice(0, this.input.selectionStart ?? undefined);
    const isHere = (this.mistake.position ?? 0) + 1 >= (partsOf(typed).at(-1)?.start ?? 0);
    const value = typedAt(typed, typed.length);
    const isBegun = isHere && value.field && /^([<>]=?|"[^"]*)?$/.test(value.typed); // nothing to compare with yet
    if (!isBegun) this.waiting = setTimeout(() => this.showMistake(), isHere ? PATIENCE_MS : 0);
  }

  showMistake() {
    const error = this.mistake;
    if (!error) return;
    this.input.setAttribute("aria-invalid", "true");
    const text = this.input.value;
    const at = error.position;
    const leading = text.length - text.trimStart().length;
    const place = at === undefined ? -1 : at + leading;
    const where = place < 0 ? [] : [
      h("code", {}, text.slice(0, place), h("mark", {}, text.slice(place, place + 1) || "▯"), text.slice(place + 1)), " ",
    ];
    fill(this.problem, where, error.message);
  }

  async offer() {
    if (document.activeElement !== this.input) return;
    const caret = this.input.selectionStart ?? this.input.value.length;
    const text = this.input.value;
    const { start, field, typed } = typedAt(text, caret);
    const words = field ? await this.values(field, typed) : this.names(typed);
    if (this.input.value !== text) return;  // more was typed, and is answered later
    const chosen = this.offered.words[this.at]?.text;
    const given = words.length === 1 && words[0].text.trim() === typed;  // nothing is left to choose
    this.offered = { start, words: given ? [] : words };
    this.at = this.offered.words.findIndex((word) => word.text === chosen);
    this.draw();
  }

  /** @param {string} typed */
  names(typed) {
    if (!typed) return [];
    const lower = typed.toLowerCase();
    const first = this.fields.filter((one) => one.name.toLowerCase().startsWith(lower));
    const inside = this.fields.filter((one) => !first.includes(one) && one.name.toLowerCase().includes(lower));
    return [...first, ...inside].slice(0, 10).map((one) => ({ text: `${one.name}:`, about: one.type || "any" }));
  }

  /** @param {string} field @param {string} typed */
  async values(field, typed) {
    const known = this.fields.find((one) => one.name === field);
    const plain = typed.replace(/^"|"$/g, "");
    if (!known || /^[<>=*(.]/.test(typed) || /^[\d.-]+$/.test(plain) || field === "text") return [];
    const where = plain && known.operators.includes("startswith") ? `${field}:${quoteValue(plain)}*` : "";
    try {
      const found = await get("/api/facets", { field, where, limit: 10, sample: true });
      return found.items[0].values
        .filter((/** @type {{ value: unknown }} */ one) => one.value !== null && String(one.value).startsWith(plain))
        .map((/** @type {{ value: string, episodes: number }} */ one) => ({ text: `${quoteValue(one.value)} `, about: String(one.episodes) }));
    } catch {
      return [];
    }
  }

  draw() {
    const { words } = this.offered;
    this.list.hidden = words.length === 0;
    this.input.setAttribute("aria-expanded", String(words.length > 0));
    fill(this.list, words.map((word, index) =>
      h("li", {
        role: "option",
        id: `word-${index}`,
        "aria-selected": String(index === this.at),
        onmousedown: (/** @type {MouseEvent} */ event) => { event.preventDefault(); this.take(index); },
      }, h("span", {}, word.text), h("small", {}, word.about))));
    if (this.at >= 0) this.input.setAttribute("aria-activedescendant", `word-${this.at}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} index */
  take(index) {
    const { start, words } = this.offered;
    const caret = this.input.selectionStart ?? this.input.value.length;
    const word = words[index].text;
    const before = this.input.value.slice(0, start) + word;
    this.input.value = before + this.input.value.slice(caret).trimStart();
    this.input.setSelectionRange(before.length, before.length);
    this.close();
    this.typed();
  }

  close() {
    this.offered = { start: 0, words: [] };
    this.at = -1;
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const count = this.offered.words.length;
    if (event.key === "Escape") {
      if (count) this.close();
      else this.input.blur();
      event.preventDefault();
    } else if (count && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      this.at = (this.at + (event.key === "ArrowDown" ? 1 : -1) + count + 1) % (count + 1);
      if (this.at === count) this.at = -1;
      this.draw();
    } else if (count && this.at >= 0 && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      this.take(this.at);
    } else if (event.key === "Enter") {
      this.isEntered = true;
      this.showMistake();
      this.close();
      this.give();
    }
  }
}
