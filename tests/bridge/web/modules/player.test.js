import assert from "node:assert/strict";
import { test } from "node:test";
import { marksOf } from "../../../../bridge/web/pages/model/findings.js";
import { pairsOf } from "../../../../bridge/web/pages/hits/hit_drawing.js";
import { PlayClock } from "../../../../bridge/web/pages/model/play_clock.js";

test("the clock plays at its rate and speed, and stops at the end", () => {
  let now = 0;
  let next = null;
  const clock = new PlayClock(100, 20, { now: () => now, schedule: (act) => { next = act; } });
  const seen = [];
  clock.watch((step) => seen.push(step));
  clock.play();
  now = 1000;
  next();
  assert.equal(clock.step, 20);
  clock.setSpeed(2);
  now = 2000;
  next();
  assert.equal(clock.step, 60);
  clock.seek(90);
  now = 9000;
  next();
  assert.equal(clock.step, 99);
  assert.equal(clock.playing, false);
  clock.play();
  assert.equal(clock.step, 0);
  clock.pause();
  clock.seek(-5);
  assert.equal(clock.step, 0);
  assert.ok(seen.length > 5);
});

test("findings say where they are", () => {
  const marks = marksOf([
    { check: "spike", reason: "signal/state[8]: timestep 65 lies 82 standard deviations from its neighbours" },
    { check: "unusual", reason: "signal/state[28]: unlike the others, most from timestep 62 on" },
    { check: "short", reason: "12 timesteps, 10% of the 120 that are usual" },
    { check: "stall", reason: "nothing moves for 30% of the duration, from timestep 9 on (usual: 2%)" },
  ]);
  assert.deepEqual(marks.map((mark) => [mark.check, mark.lane, mark.channel, mark.step, mark.lasting]), [
    ["spike", "signal/state", "8", 65, false],
    ["unusual", "signal/state", "28", 62, true],
    ["stall", "", null, 9, true],
  ]);
});

test("hits without an alignment are drawn from end to end", () => {
  assert.deepEqual(pairsOf([[0, 5], [1, 6]], [0, 2], [5, 7]), [[0, 5], [1, 6]]);
  const pairs = pairsOf([], [10, 20], [50, 90]);
  assert.deepEqual([pairs[0], pairs.at(-1)], [[0, 50], [9, 89]]);
});
