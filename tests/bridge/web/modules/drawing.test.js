import assert from "node:assert/strict";
import { test } from "node:test";

import { Drawing, POINTS } from "../../../../bridge/web/pages/model/drawing.js";

test("a drawn channel runs through its points, holds its ends, and others stay in the middle", () => {
  const drawing = new Drawing([
    { lane: "signal/state", channel: 0, low: -1, high: 3 },
    { lane: "action/ctrl", channel: 2, low: 10, high: 20 },
  ]);
  assert.ok(drawing.isEmpty);
  drawing.line(0, [10, 0], [20, 1]);
  drawing.line(0, [30, 0.5], [20, 1]); // to the left
  assert.deepEqual([0, 10, 15, 20, 25, 30, POINTS - 1].map((at) => drawing.course(0)?.[at]), [0, 0, 0.5, 1, 0.75, 0.5, 0.5]);
  const [head, ...rows] = drawing.toCsv(POINTS).trim().split("\n").map((row) => row.split(","));
  assert.deepEqual(head, ['"signal/state[0]"', '"action/ctrl[2]"']);
  assert.equal(rows.length, POINTS);
  assert.deepEqual([rows[0], rows[15], rows[20]], [["-1", "15"], ["1", "15"], ["3", "15"]]);
  assert.equal(drawing.toCsv(7).trim().split("\n").length, 8);
  drawing.line(0, [0, 2], [3, -5]);
  assert.ok(drawing.course(0)?.every((share) => share >= 0 && share <= 1), "within the range");
  drawing.clear(0);
  assert.ok(drawing.isEmpty);
});
