import assert from "node:assert/strict";
import { test } from "node:test";
import { marksOf } from "../../../../bridge/web/pages/model/findings.js";
import { channelLabel } from "../../../../bridge/web/pages/model/series.js";

test("a finding names lane and channel, by number or by name", () => {
  const reasons = ["signal/a[3]: timestep 5 lies", "signal/a[wrist 1]: timestep 5 lies", "signal/a: timestep 5 lies"];
  const marks = marksOf(reasons.map((reason) => ({ check: "spike", reason })));
  assert.deepEqual(marks.map(({ lane, channel, step }) => [lane, channel, step]), [["signal/a", "3", 5], ["signal/a", "wrist 1", 5], ["signal/a", null, 5]]);
});

test("channels are called by their names, and by their numbers without them", () => {
  const series = { lane: "signal/a", steps: [], channels: [2, 0], values: [], of: 3 };
  assert.equal(channelLabel({ ...series, names: ["elbow", "pan"] }, 1), "pan");
  assert.equal(channelLabel({ ...series, names: [] }, 0), "2");
});
