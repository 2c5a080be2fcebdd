// The options of searches that have no place of their own on a page, as the API declares them, in a form.
import { get } from "../base/api.js";
import { fill, h, withCode } from "../base/dom.js";
import { readState, writeState } from "../base/url_state.js";

/** @typedef {{ name: string, description: string, schema: { type: string, default?: unknown, minimum?: number, maximum?: number } }} Parameter */

const ROUTES = ["/api/search", "/api/moments"];
const ELSEWHERE = ["query", "like", "unlike", "where", "text", "diversity", "distinct", "per_episode", "exclude_self", "alignment", "background"];

export class SearchOptionsForm {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.element = h("div", { class: "options" });
    /** @type {Record<string, string[]>} the names of the options of each route */
    this.names = {};
    /** @type {{ parameter: Parameter, input: HTMLInputElement }[]} */
    this.fields = [];
  }

  /** Make the form from what the API declares. */
  async load() {
    const { paths } = await get("/api/openapi.json");
    for (const route of ROUTES) {
      const parameters = /** @type {Parameter[]} */ (paths[route].get.parameters).filter((one) => !ELSEWHERE.includes(one.name));
      this.names[route] = parameters.map((one) => one.name);
      const others = parameters.filter((one) => !this.fields.some((field) => field.parameter.name === one.name));
      this.fields.push(...others.map((parameter) => ({ parameter, input: this.makeInput(parameter) })));
    }
    fill(this.element, this.fields.map(({ parameter, input }) => h("label", {},
      h("strong", {}, parameter.name.replaceAll("_", "-")), input, h("small", { class: "soft" }, withCode(parameter.description.replace("; may be repeated", "; separate several by commas"))))));
  }

  /** @param {Parameter} parameter */
  makeInput({ name, schema }) {
    const isFlag = schema.type === "boolean";
    const isNumber = schema.type === "integer" || schema.type === "number";
    const input = h("input", {
      type: isFlag ? "checkbox" : isNumber ? "number" : "text", name, step: schema.type === "number" ? "any" : null,
      min: schema.minimum ?? null, max: schema.maximum ?? null,
      onchange: () => {
        const flag = input.checked === Boolean(schema.default) ? null : input.checked ? "1" : "0";
        writeState({ [name]: isFlag ? flag : input.value.trim() || null }, { push: true });
        this.changed();
      },
    });
    return input;
  }

  /** Show the options of the page's address. */
  show() {
    const state = readState();
    for (const { parameter, input } of this.fields) {
      const value = state.get(parameter.name);
      if (input.type === "checkbox") input.checked = value === null ? Boolean(parameter.schema.default) : value === "1";
      else input.value = value || "";
    }
  }

  /** The options of the page's address that a route has: several values are separated by commas. @param {string} route */
  chosen(route) {
    const state = readState();
    const own = this.fields.filter(({ parameter }) => this.names[route].includes(parameter.name) && state.get(parameter.name));
    return Object.fromEntries(own.map(({ parameter: { name, schema } }) => {
      const value = state.get(name) || "";
      return [name, schema.type === "array" ? value.split(",").map((one) => one.trim()) : value];
    }));
  }
}
