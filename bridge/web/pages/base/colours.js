// Colours of channels: the same channel has the same one on every page. Told apart also by people who mix up red and green.

const LIGHT = ["#0072b2", "#b84e00", "#00795a", "#b0437f", "#806600", "#6b4fa3", "#7a4a2a", "#5b6470"];
const DARK = ["#56b4e9", "#ff9d57", "#3fc79a", "#e58fc0", "#e6c84f", "#8fc7f0", "#b59cf0", "#aab2bd"];

/** Whether the page is dark now. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** @param {number} channel */
export function channelColour(channel) {
  const colours = isDark() ? DARK : LIGHT;
  return colours[channel % colours.length];
}

/**
 * A number for a name, the same one always.
 * @param {string} name
 */
export function numberOf(name) {
  let sum = 7;
  for (let at = 0; at < name.length; at += 1) sum = (sum * 31 + name.charCodeAt(at)) >>> 0;
  return sum;
}

/**
 * A colour for a number in 0..1, from dark to light, evenly (viridis, by its middle points).
 * @param {number} share
 * @returns {[number, number, number]}
 */
function ramp(share) {
  const points = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const at = Math.min(0.9999, Math.max(0, share)) * (points.length - 1);
  const low = Math.floor(at);
  return /** @type {[number, number, number]} */ (
    points[low].map((value, index) => Math.round(value + (points[low + 1][index] - value) * (at - low)))
  );
}

/** The colour of points that have no label. @type {[number, number, number]} */
export const UNLABELLED = [140, 145, 150];

const SHADES = [[1, 0], [0.6, 0], [0.5, 120]]; // of the same colour, for labels beyond the first ones

/**
 * The colours of labels, in their order: a ramp where they are many and numbers.
 * @param {string[]} labels sorted
 * @returns {{ isRamp: boolean, colours: [number, number, number][] }}
 */
export function coloursOfLabels(labels) {
  const numbers = labels.map((label) => (label === "" ? NaN : Number(label)));
  const isRamp = labels.length > 8 && numbers.every(Number.isFinite);
  if (isRamp) {
    const [low, range] = [numbers[0], Math.max(1e-9, numbers[numbers.length - 1] - numbers[0])];
    return { isRamp, colours: numbers.map((value) => ramp((value - low) / range)) };
  }
  const base = LIGHT.map((_, at) => [1, 3, 5].map((digit) => parseInt(channelColour(at).slice(digit, digit + 2), 16)));
  const shades = SHADES.flatMap(([share, ground]) => base.map((parts) => parts.map((part) => Math.round(part * share + ground))));
  return { isRamp, colours: labels.map((_, at) => /** @type {[number, number, number]} */ (shades[at % shades.length])) };
}
