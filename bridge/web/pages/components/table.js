// A table of any length: only visible rows are elements, and only their blocks are fetched.
import { isAborted } from "../base/api.js";
import { append, fill, h, say } from "../base/dom.js";
import { Blocks } from "../model/blocks.js";
import { isScaled, lastTop, positionOf, rowAt, scrollHeight } from "../model/scrolling.js";

/** @typedef {Record<string, any>} Row */
/** @typedef {{ name: string, title: string, width: string, right?: boolean, pinned?: boolean, sort?: string, cell: (row: Row, index: number) => Node | string }} Column */

const ROW = 40;

/** How wide columns are at least, with what is around them. @param {Column[]} columns */
export function leastWidth(columns) {
  return columns.map((one) => Number(/\d+/.exec(one.width)?.[0] ?? 0) + 8).reduce((sum, width) => sum + width, 28);
}

/** @param {Column} column */
function classOf(column) {
  return column.pinned ? "pinned" : column.right ? "right" : "";
}

export class EpisodeTable {
  /**
   * @param {{
   *   fetchRows: (offset: number, limit: number, signal: AbortSignal) => Promise<Row[]>,
   *   onOpen: (row: Row) => void,
   *   onSort: (field: string) => void,
   *   onShown?: (rows: Row[]) => void,
   *   onCurrent?: (row: Row | undefined, index: number) => void,
   *   isSelected: (row: Row) => boolean,
   *   onSelect: (row: Row, index: number, range: boolean) => void,
   * }} options
   */
  constructor(options) {
    this.options = options;
    this.blocks = new Blocks(options.fetchRows);
    this.total = 0;
    this.current = 0;
    this.top = 0;
    this.expected = 0;
    this.sort = "";
    /** @type {Column[]} */
    this.columns = [];
    this.head = h("div", { role: "row", class: "row head", "aria-rowindex": 1 });
    this.spacer = h("div", { class: "spacer", role: "presentation" });
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.viewport = h("div", { class: "viewport", role: "presentation" }, this.spacer, this.body);
    this.element = h(
      "div",
      { class: "grid", role: "grid", tabindex: 0, "aria-label": "Episodes", "aria-multiselectable": "true" },
      h("div", { role: "rowgroup" }, this.head),
      this.viewport,
    );
    this.viewport.addEventListener("scroll", () => this.scrolled());
    this.viewport.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    this.element.addEventListener("keydown", (event) => this.pressed(event));
    this.element.addEventListener("scroll", () => this.pin());
    new ResizeObserver(() => this.draw()).observe(this.viewport);
  }

  get list() {
    return { total: this.total, rowHeight: ROW, view: this.viewport.clientHeight || 400 };
  }

  /** @param {Column[]} columns @param {string} sort */
  setColumns(columns, sort) {
    this.columns = columns;
    this.sort = sort;
    this.element.style.setProperty("--columns", columns.map((one) => one.width).join(" "));
    this.element.style.setProperty("--least", `${leastWidth(columns)}px`);
    fill(this.head, columns.map((one) => {
      const up = sort === one.sort;
      const down = sort === `-${one.sort}`;
      const label = one.sort
        ? h("button", { class: "sort", onclick: () => this.options.onSort(up ? `-${one.sort}` : String(one.sort)) },
          one.title, h("span", { class: "arrow", "aria-hidden": "true" }, up ? "▲" : down ? "▼" : ""))
        : one.title || h("span", { class: "unseen" }, one.name);
      return h("div", {
        role: "columnheader",
        class: classOf(one),
        "aria-sort": up ? "ascending" : down ? "descending" : false,
      }, label);
    }));
  }

  /**
   * Show another list, from its beginning, or from where one was.
   * @param {number} total
   * @param {Row[]} rows those of its beginning
   * @param {boolean} stay
   */
  reset(total, rows, stay) {
    this.blocks.restart(rows, stay);
    this.total = total;
    this.element.setAttribute("aria-rowcount", String(total + 1));
    this.spacer.style.height = `${scrollHeight(total, ROW)}px`;
    if (!stay) {
      this.top = 0;
      this.current = 0;
    }
    this.current = Math.max(0, Math.min(this.current, total - 1));
    this.moveBar();
    this.draw();
  }

  /** Say how many rows there are, once that is known; the rows stay. @param {number} total */
  setTotal(total) {
    this.total = total;
    this.element.setAttribute("aria-rowcount", String(total + 1));
    this.spacer.style.height = `${scrollHeight(total, ROW)}px`;
    this.moveBar();
    this.draw();
  }

  scrolled() {
    if (Math.abs(this.viewport.scrollTop - this.expected) < 2) return;
    this.top = rowAt(this.viewport.scrollTop, this.list);
    this.expected = this.viewport.scrollTop;
    this.draw();
  }

  /** @param {WheelEvent} event */
  wheeled(event) {
    if (!isScaled(this.total, ROW) || event.ctrlKey) return;
    event.preventDefault();
    this.top = Math.min(lastTop(this.list), Math.max(0, this.top + event.deltaY / ROW));
    this.moveBar();
    this.draw();
  }

  /** Let the pinned column stay in sight while the others move below it: rows scroll in a box of their own. */
  pin() {
    const head = /** @type {HTMLElement | null} */ (this.head.querySelector(".pinned"));
    const shift = head ? Math.max(0, this.element.scrollLeft + this.head.offsetLeft - head.offsetLeft) : 0;
    this.element.style.setProperty("--shift", `${shift}px`);
  }

  moveBar() {
    this.expected = Math.round(positionOf(this.top, this.list));
    this.viewport.scrollTop = this.expected;
    this.expected = this.viewport.scrollTop;
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const page = Math.max(1, Math.floor(this.list.view / ROW) - 1);
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total };
    if (event.target !== this.element && event.target !== this.viewport) return;
    if (event.key in moves) {
      event.preventDefault();
      this.move(moves[event.key]);
    }
  }

  /** @param {number} by */
  move(by) {
    this.goTo(this.current + by);
  }

  /** @param {number} index */
  goTo(index) {
    this.current = Math.max(0, Math.min(this.total - 1, index));
    const visible = this.list.view / ROW;
    if (this.current < this.top) this.top = this.current;
    else if (this.current + 1 > this.top + visible) this.top = this.current + 1 - visible;
    this.moveBar();
    this.draw();
  }

  currentRow() {
    return this.blocks.row(this.current);
  }

  draw() {
    const visible = this.list.view / ROW;
    const first = Math.max(0, Math.floor(this.top));
    const last = Math.min(this.total, Math.ceil(this.top + visible));
    this.paint(first, last);
    this.blocks.want(Math.max(0, first - 10), Math.min(this.total, last + 10)).then(
      (fresh) => fresh && this.draw(),
      (error) => isAborted(error) || say(String(error.message), { error: true }),
    );
  }

  /** @param {number} first @param {number} last */
  paint(first, last) {
    const offset = this.viewport.scrollTop - (this.top - first) * ROW;
    this.body.style.transform = `translateY(${offset}px)`;
    /** @type {Row[]} */
    const seen = [];
    const rows = [];
    for (let index = first; index < last; index += 1) {
      const row = this.blocks.row(index);
      if (row) seen.push(row);
      rows.push(this.rowElement(row, index));
    }
    fill(this.body, rows);
    const current = this.body.querySelector(".current");
    if (current) this.element.setAttribute("aria-activedescendant", current.id);
    else this.element.removeAttribute("aria-activedescendant");
    this.options.onShown?.(seen);
    this.options.onCurrent?.(this.currentRow(), this.current);
  }

  /** @param {Row | undefined} row @param {number} index */
  rowElement(row, index) {
    const chosen = row !== undefined && this.options.isSelected(row);
    const element = h("div", {
      role: "row",
      id: `row-${index}`,
      class: `row${index === this.current ? " current" : ""}${chosen ? " chosen" : ""}${row ? "" : " waiting"}`,
      "aria-rowindex": index + 2,
      "aria-selected": String(chosen),
      onclick: (/** @type {MouseEvent} */ event) => this.clicked(event, row, index),
      ondblclick: () => row && this.options.onOpen(row),
    });
    append(element, this.columns.map((one) =>
      h("div", { role: "gridcell", class: classOf(one) }, row ? one.cell(row, index) : "…")));
    return element;
  }

  /** @param {MouseEvent} event @param {Row | undefined} row @param {number} index */
  clicked(event, row, index) {
    if (event.target instanceof HTMLElement && event.target.closest("a, button, input")) return;
    const range = event.shiftKey;
    if (row && (range || event.ctrlKey || event.metaKey)) this.options.onSelect(row, index, range);
    this.current = index;
    this.element.focus({ preventScroll: true });
    this.draw();
  }
}
