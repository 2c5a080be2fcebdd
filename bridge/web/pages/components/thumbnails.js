// Small drawings of episodes for a list: a picture from the middle, and one lane over time.
import { get, pictureUrl } from "../base/api.js";
import { drawPicture, h } from "../base/dom.js";
import { drawSparkline } from "./sparkline.js";

const WIDE = { width: 132, height: 34 };

export class Thumbnails {
  /** @param {() => void} onFetched */
  constructor(onFetched) {
    this.onFetched = onFetched;
    /** @type {Map<string, { channels: (number | null)[][], picture: string | null, middle: number, error?: string }>} */
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
    const width = known.picture ? WIDE.width - 50 : WIDE.width;
    drawSparkline(canvas, known.channels, { width, height: WIDE.height });
    if (!known.picture) return canvas;
    const picture = drawPicture(pictureUrl(uid, known.picture, known.middle, 96), { loading: "lazy", height: WIDE.height });
    picture.addEventListener("error", () => { known.picture = null; }); // it is not asked for again
    return h("span", { class: "thumbnail" }, picture, canvas);
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
        this.lanes.set(one.uid, { channels: lane ? lane.values : [], picture: one.pictures?.[0] ?? null, middle, error: one.error });
      }
      this.onFetched();
    } catch {
      // a list without drawings is a list
    } finally {
      for (const uid of missing) this.asking.delete(uid);
    }
  }
}
