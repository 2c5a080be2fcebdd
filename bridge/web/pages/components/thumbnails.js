// Small drawings of episodes for a list: a picture from the middle, and one lane over time.
import { get, pictureUrl } from "../base/api.js";
import { drawPicture, h } from "../base/dom.js";
import { drawSparkline } from "./sparkline.js";

const WIDE = { width: 132, height: 34 };

export class Thumbnails {
  /** @param {() => void} onFetched */
  constructor(onFetched) {
    this.onFetched = onFetched;
    /** @type {Map<string, { channels: (number | null)[][], pictures: string[], error?: string }>} */
    this.lanes = new Map();
    /** @type {Set<string>} */
    this.asking = new Set();
  }

  /** The drawing of an episode, nothing until it was fetched. @param {string} uid */
  draw(uid) {
    const known = this.lanes.get(uid);
    if (!known) return "";
    if (known.error) return h("small", { class: "soft", title: known.error }, "cannot be read");
    const canvas = h("canvas", { class: "spark", "aria-hidden": "true" });
    const width = known.pictures.length ? WIDE.width - 50 : WIDE.width;
    drawSparkline(canvas, known.channels, { width, height: WIDE.height });
    if (!known.pictures.length) return canvas;
    return h("span", { class: "thumbnail" }, drawPicture(known.pictures, { loading: "lazy", height: WIDE.height }), canvas);
  }

  /** @param {string[]} uids */
  async fetch(uids) {
    const missing = uids.filter((uid) => !this.lanes.has(uid) && !this.asking.has(uid));
    if (!missing.length) return;
    for (const uid of missing) this.asking.add(uid);
    try {
      const found = await get("/api/series", { of: missing, points: 60, lanes: 1 });
      for (const one of found.items) {
        const lane = one.lanes[0];
        const middle = Math.floor((one.span[0] + one.span[1]) / 2);
        const pictures = one.pictures.map((/** @type {string} */ name) => pictureUrl(one.uid, name, middle, 96));
        this.lanes.set(one.uid, { channels: lane ? lane.values : [], pictures, error: one.error });
      }
      this.onFetched();
    } catch {
      // a list without drawings is a list
    } finally {
      for (const uid of missing) this.asking.delete(uid);
    }
  }
}
