// A movement that somebody draws: values of channels at equal distances in time, each as a share of a range.

export const POINTS = 41;

export class Drawing {
  /** @param {{ lane: string, channel: number, low: number, high: number }[]} channels */
  constructor(channels) {
    this.channels = channels;
    /** @type {((number | null)[] | null)[]} 0 at the least value of the range, 1 at the greatest; null: nothing was drawn */
    this.shares = channels.map(() => null);
  }

  get isEmpty() {
    return this.shares.every((one) => one === null);
  }

  /**
   * The whole course of a channel: before, between and after what was drawn it keeps the nearest value before, or the first.
   * @param {number} channel
   * @returns {number[] | null}
   */
  course(channel) {
    const shares = this.shares[channel];
    if (!shares) return null;
    let last = shares.find((one) => one !== null) ?? 0.5;
    return shares.map((one) => { last = one ?? last; return last; });
  }

  /**
   * Draw from one point to another, in a straight line.
   * @param {number} channel
   * @param {[number, number]} from place 0 to POINTS - 1, and share
   * @param {[number, number]} to
   */
  line(channel, from, to) {
    const shares = this.shares[channel] ?? /** @type {(number | null)[]} */ (new Array(POINTS).fill(null));
    const [first, last] = from[0] <= to[0] ? [from, to] : [to, from];
    for (let at = Math.max(0, Math.round(first[0])); at <= Math.min(POINTS - 1, Math.round(last[0])); at += 1) {
      const part = last[0] > first[0] ? Math.min(1, Math.max(0, (at - first[0]) / (last[0] - first[0]))) : 1;
      const share = last[0] > first[0] ? first[1] + part * (last[1] - first[1]) : to[1];
      shares[at] = Math.min(1, Math.max(0, share));
    }
    this.shares[channel] = shares;
  }

  /** @param {number} channel */
  clear(channel) {
    this.shares[channel] = null;
  }

  /**
   * The movement as a table that the server reads: channels that were not drawn stay in the middle of their range.
   * @param {number} steps
   */
  toCsv(steps) {
    const rows = [this.channels.map(({ lane, channel }) => `"${lane.replaceAll('"', '""')}[${channel}]"`).join(",")];
    const courses = this.channels.map((_, index) => this.course(index));
    for (let step = 0; step < steps; step += 1) {
      const place = (step / Math.max(1, steps - 1)) * (POINTS - 1);
      const at = Math.min(POINTS - 2, Math.floor(place));
      rows.push(this.channels.map(({ low, high }, index) => {
        const shares = courses[index];
        const share = shares ? shares[at] + (place - at) * (shares[at + 1] - shares[at]) : 0.5;
        return String(low + share * (high - low));
      }).join(","));
    }
    return `${rows.join("\n")}\n`;
  }
}
