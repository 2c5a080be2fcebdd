// Values of lanes over time: which belong together, how far apart they are, where a timestep is in them.

/** @typedef {{ lane: string, steps: number[], channels: number[], values: (number | null)[][], of: number, names?: string[], unit?: string }} Series */
/** @typedef {{ truth: Series, omens: Series[], uncerts: Series[], residuals: Series[] }} Group */

/**
 * Group predictions, their uncertainties and residuals with the lane that they are about.
 * @param {Series[]} series
 * @param {Series[]} [residuals]
 * @returns {Group[]}
 */
export function grouped(series, residuals = []) {
  const about = (/** @type {Series} */ one) => one.lane.split("/")[1] || "";
  const isExtra = (/** @type {Series} */ one) => /^(omen|uncert)\/[^/]+\/./.test(one.lane);
  const truths = series.filter((one) => !isExtra(one));
  const named = (/** @type {Series} */ truth) => truth.lane.split("/").slice(1).join("/");
  const groups = truths.map((truth) => ({
    truth,
    omens: series.filter((one) => one.lane.startsWith("omen/") && isExtra(one) && about(one) === named(truth)),
    uncerts: series.filter((one) => one.lane.startsWith("uncert/") && isExtra(one) && about(one) === named(truth)),
    residuals: truth.lane.startsWith("signal/") ? residuals.filter((one) => one.lane.split("/").slice(1, -1).join("/") === named(truth)) : [],
  }));
  const used = new Set(groups.flatMap((group) => [...group.omens, ...group.uncerts]));
  const left = series.filter((one) => isExtra(one) && !used.has(one));
  return [...groups, ...left.map((truth) => ({ truth, omens: [], uncerts: [], residuals: [] }))];
}

/**
 * What a channel is called: its name, or its number.
 * @param {Series} series
 * @param {number} index
 */
export function channelLabel(series, index) {
  return series.names?.[index] ?? String(series.channels[index]);
}

/**
 * How far a prediction is from its truth: the root of the mean square over all channels and steps.
 * @param {Series} truth
 * @param {Series} omen
 */
export function errorOf(truth, omen) {
  let [sum, count] = [0, 0];
  truth.values.forEach((values, index) => {
    if (!omen.values[index]) return;
    onSteps(omen, index, truth.steps).forEach((predicted, at) => {
      const value = values[at];
      if (predicted === null || value === null) return;
      sum += (predicted - value) ** 2;
      count += 1;
    });
  });
  return count ? Math.sqrt(sum / count) : 0;
}

/**
 * A channel's values at the steps of another series.
 * @param {Series} series
 * @param {number} index
 * @param {number[]} steps
 */
export function onSteps(series, index, steps) {
  return steps.map((step) => series.values[index][nearest(series.steps, step)] ?? null);
}

/**
 * The place of the step that is nearest, in ascending steps.
 * @param {number[]} steps
 * @param {number} step
 */
export function nearest(steps, step) {
  let low = 0;
  let high = steps.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1;
    else high = middle;
  }
  return low > 0 && step - steps[low - 1] <= steps[low] - step ? low - 1 : low;
}
