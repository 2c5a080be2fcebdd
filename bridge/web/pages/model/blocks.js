// Rows of a long list, fetched in blocks as they are looked at.

/**
 * @template Row
 */
export class Blocks {
  /**
   * @param {(offset: number, limit: number, signal: AbortSignal) => Promise<Row[]>} fetchRows
   * @param {number} [size] rows of a block
   * @param {number} [most] blocks in memory
   */
  constructor(fetchRows, size = 100, most = 40) {
    this.fetchRows = fetchRows;
    this.size = size;
    this.most = most;
    /** @type {Map<number, Row[]>} */
    this.known = new Map();
    /** @type {Map<number, AbortController>} */
    this.waiting = new Map();
    /** @type {Set<number>} */
    this.stale = new Set();
  }

  /** @param {number} index @returns {Row | undefined} */
  row(index) {
    return this.known.get(Math.floor(index / this.size))?.[index % this.size];
  }

  /**
   * Begin anew with the rows of the first block.
   * @param {Row[]} rows
   * @param {boolean} stay show the rows of other blocks until they are fetched again
   */
  restart(rows, stay) {
    for (const one of this.waiting.values()) one.abort();
    this.waiting.clear();
    if (!stay) this.known.clear();
    this.stale = new Set(this.known.keys());
    this.keep(0, rows);
  }

  /** @param {number} block @param {Row[]} rows */
  keep(block, rows) {
    this.known.set(block, rows);
    this.stale.delete(block);
  }

  /**
   * Have the rows [first, last) fetched that are not here; blocks that nobody looks at any more are not waited for.
   * @param {number} first
   * @param {number} last
   * @returns {Promise<boolean>} whether something new came
   */
  async want(first, last) {
    const wanted = new Set();
    for (let block = Math.floor(first / this.size); block * this.size < last; block += 1) wanted.add(block);
    for (const [block, control] of this.waiting) {
      if (!wanted.has(block)) {
        control.abort();
        this.waiting.delete(block);
      }
    }
    const missing = [...wanted].filter((block) => (!this.known.has(block) || this.stale.has(block)) && !this.waiting.has(block));
    const found = await Promise.all(missing.map((block) => this.load(block)));
    return found.some(Boolean);
  }

  /** @param {number} block */
  async load(block) {
    const control = new AbortController();
    this.waiting.set(block, control);
    try {
      const rows = await this.fetchRows(block * this.size, this.size, control.signal);
      if (control.signal.aborted) return false;
      this.keep(block, rows);
      for (const old of this.known.keys()) {
        if (this.known.size <= this.most) break;
        this.known.delete(old);
      }
      return true;
    } catch (error) {
      if (control.signal.aborted) return false;
      throw error;
    } finally {
      if (this.waiting.get(block) === control) this.waiting.delete(block);
    }
  }
}
