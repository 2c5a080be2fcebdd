// Small drawings of lanes.
import { channelColour } from "../base/colours.js";
import { context2d } from "../base/dom.js";

/**
 * Draw channels into a small canvas, each from its least to its greatest value.
 * @param {HTMLCanvasElement} canvas
 * @param {(number | null)[][]} channels
 * @param {{ width: number, height: number, most?: number }} box
 */
export function drawSparkline(canvas, channels, { width, height, most = 4 }) {
  const context = context2d(canvas, width, height);
  const moving = channels.map((values, channel) => ({ values, channel, spread: spreadOf(values) }));
  const shown = moving.filter((one) => one.spread[1] > one.spread[0]);
  const drawn = (shown.length ? shown : moving).slice(0, most);
  for (const { values, channel, spread: [low, high] } of drawn) {
    context.strokeStyle = channelColour(channel);
    context.lineWidth = 1.2;
    context.beginPath();
    let down = false;
    values.forEach((value, index) => {
      if (value === null) {
        down = false;
        return;
      }
      const x = (index / Math.max(1, values.length - 1)) * (width - 2) + 1;
      const y = high > low ? height - 3 - ((value - low) / (high - low)) * (height - 6) : height / 2;
      if (down) context.lineTo(x, y);
      else context.moveTo(x, y);
      down = true;
    });
    context.stroke();
  }
}

/** @param {(number | null)[]} values @returns {[number, number]} */
export function spreadOf(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 0];
}
