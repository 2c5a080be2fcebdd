// Where in an episode a check found something: checks say lane, channel and timestep in words.

/** @typedef {{ check: string, reason: string }} Finding */
/** @typedef {{ check: string, reason: string, lane: string, channel: string | null, step: number, lasting: boolean }} Mark */

const PLACE = /^([^\s[\]:]+)(?:\[(.+?)\])?: /;
const STEP = /timestep (\d+)/;

/**
 * @param {Finding[]} findings
 * @returns {Mark[]} those that name a timestep; lasting: from there on
 */
export function marksOf(findings) {
  return findings.flatMap(({ check, reason }) => {
    const step = STEP.exec(reason);
    if (!step) return [];
    const place = PLACE.exec(reason);
    return [{
      check,
      reason,
      lane: place ? place[1] : "",
      channel: place?.[2] ?? null,
      step: Number(step[1]),
      lasting: /timestep \d+ on/.test(reason),
    }];
  });
}
