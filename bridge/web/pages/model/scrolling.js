// Where a list of any length is, in a scroll bar of limited height: browsers cut elements at some 17 million pixels.

const TALLEST = 6_000_000;

/**
 * @param {number} total rows
 * @param {number} rowHeight
 * @returns {number} height of what is scrolled, in pixels
 */
export function scrollHeight(total, rowHeight) {
  return Math.min(total * rowHeight, TALLEST);
}

/**
 * The row at the top, which may be a fraction, at a position of the scroll bar.
 * @param {number} scrollTop
 * @param {{ total: number, rowHeight: number, view: number }} list view: visible height in pixels
 */
export function rowAt(scrollTop, { total, rowHeight, view }) {
  const height = scrollHeight(total, rowHeight);
  const room = height - view;
  if (room <= 0) return 0;
  return (Math.min(Math.max(scrollTop, 0), room) / room) * lastTop({ total, rowHeight, view });
}

/**
 * The position of the scroll bar for a row at the top.
 * @param {number} row
 * @param {{ total: number, rowHeight: number, view: number }} list
 */
export function positionOf(row, { total, rowHeight, view }) {
  const last = lastTop({ total, rowHeight, view });
  if (last <= 0) return 0;
  return (Math.min(Math.max(row, 0), last) / last) * (scrollHeight(total, rowHeight) - view);
}

/** @param {{ total: number, rowHeight: number, view: number }} list */
export function lastTop({ total, rowHeight, view }) {
  return Math.max(0, total - view / rowHeight);
}

/** @param {number} total @param {number} rowHeight whether a pixel of the scroll bar is more than one of the rows */
export function isScaled(total, rowHeight) {
  return total * rowHeight > TALLEST;
}
