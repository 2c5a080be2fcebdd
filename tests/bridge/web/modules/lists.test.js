import assert from "node:assert/strict";
import { test } from "node:test";
import { briefNames, locationOf } from "../../../../bridge/web/pages/model/brief.js";
import { titleOf } from "../../../../bridge/web/pages/model/field_names.js";
import { labelOf } from "../../../../bridge/web/pages/model/labels.js";
import { Blocks } from "../../../../bridge/web/pages/model/blocks.js";
import { coloursOfLabels } from "../../../../bridge/web/pages/base/colours.js";
import { isInside, pointsOfNextFrame, shuffledOrder } from "../../../../bridge/web/pages/components/points.js";
import { visible } from "../../../../bridge/web/pages/base/dom.js";
import { cutOf, linesOf, progressOf } from "../../../../bridge/web/pages/model/queue_lines.js";
import { positionOf, rowAt, scrollHeight } from "../../../../bridge/web/pages/model/scrolling.js";

test("every row of a long list can be reached by the scroll bar", () => {
  const list = { total: 1_000_000, rowHeight: 40, view: 600 };
  assert.ok(scrollHeight(list.total, 40) < 16_000_000);
  for (const row of [0, 1, 499_999.5, 999_985]) assert.ok(Math.abs(rowAt(positionOf(row, list), list) - row) < 1e-6);
  assert.equal(rowAt(1e12, list), 999_985);
  const short = { total: 5, rowHeight: 40, view: 600 };
  assert.equal(rowAt(100, short), 0);
  assert.equal(positionOf(3, short), 0);
});

test("blocks are asked for once, and those that nobody looks at are let go", async () => {
  const asked = [];
  const blocks = new Blocks(async (offset, limit, signal) => {
    asked.push(offset);
    if (offset === 200) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return Array.from({ length: limit }, (_, index) => offset + index);
  });
  assert.equal(await blocks.want(95, 105), true);
  assert.equal(blocks.row(150), 150);
  assert.equal(await blocks.want(0, 100), false);
  const waiting = blocks.want(210, 220);
  await blocks.want(0, 10);
  assert.equal(await waiting, false);
  assert.deepEqual(asked, [0, 100, 200]);
  assert.equal(blocks.row(205), undefined);
});

test("rows stay until they are fetched again, so that keys pressed meanwhile find one", async () => {
  let version = "old";
  const blocks = new Blocks(async (offset, limit) => Array(limit).fill(version));
  await blocks.want(0, 200);
  version = "new";
  blocks.restart(Array(100).fill("new"), true);
  assert.deepEqual([blocks.row(0), blocks.row(150)], ["new", "old"]);
  assert.equal(await blocks.want(0, 200), true);
  assert.equal(blocks.row(150), "new");
  assert.equal(await blocks.want(0, 200), false);
  blocks.restart([], false);
  assert.equal(blocks.row(150), undefined);
});

test("a point is inside of a lasso, or is not", () => {
  const line = [[0, 0], [10, 0], [10, 10], [5, 5], [0, 10]];
  assert.equal(isInside([2, 2], line), true);
  assert.equal(isInside([5, 9], line), false);
  assert.equal(isInside([-1, 5], line), false);
});

test("queues are lines of one episode each", () => {
  const pair = { kind: "near", apart: 0.5, left: { uid: "a" }, right: { uid: "b" } };
  assert.deepEqual(linesOf("duplicates", [{ pairs: [pair] }]).map((one) => [one.uid, one.other.uid]), [["b", "a"]]);
  assert.equal(linesOf("mislabeled", [{ uid: "c", value: 0.9, label: "x", suggested: "y" }])[0].said, "x → y? (0.9)");
  assert.equal(linesOf("leaks", [pair])[0].said, "nearly the same, 0.5 standard deviations apart");
});

test("the first points in the order of drawing stand for all, and each is drawn", () => {
  const order = shuffledOrder(10_000);
  assert.deepEqual([...order].sort((a, b) => a - b), [...Array(10_000).keys()]);
  const left = order.slice(0, 1000).filter((at) => at < 5000).length;
  assert.ok(left > 400 && left < 600, `${left} of 1,000 are in the first half`);
});

test("slow frames have fewer points the next time, quick ones more", () => {
  assert.equal(pointsOfNextFrame(50_000, 100, 200_000), 25_000);
  assert.equal(pointsOfNextFrame(3000, 100, 200_000), 2000);
  assert.equal(pointsOfNextFrame(40_000, 33, 200_000), 40_000);
  assert.equal(pointsOfNextFrame(40_000, 16, 200_000), 50_000);
  assert.equal(pointsOfNextFrame(190_000, 16, 200_000), 200_000);
});

test("many labels that are numbers get a ramp, others colours of their own", () => {
  const numbers = coloursOfLabels(Array.from({ length: 200_000 }, (_, at) => String(at)));
  assert.equal(numbers.isRamp, true);
  assert.deepEqual([numbers.colours[0], numbers.colours.length], [[68, 1, 84], 200_000]);
  globalThis.document = { documentElement: { dataset: { theme: "light" } } };
  const names = coloursOfLabels(Array.from({ length: 24 }, (_, at) => `env-${at}`));
  assert.equal(names.isRamp, false);
  assert.equal(new Set(names.colours.map(String)).size, 24);
});

test("a queue whose stage is done is not finished", () => {
  const job = { what: "vectors", done: 1999, total: 2000, state: "running" };
  assert.equal(progressOf(job), "vectors: 1,999 of 2,000");
  assert.equal(progressOf({ ...job, done: 2000 }), "vectors done, computing the queue …");
  assert.equal(progressOf({ what: "", total: 0, state: "waiting" }), "waiting for other jobs …");
});

test("what nobody would see in a name is written out, and other scripts are left alone", () => {
  assert.equal(visible("a\u202ecod.exe\u0000\u200b"), "a⟨U+202E⟩cod.exe⟨U+0000⟩⟨U+200B⟩");
  const plain = "שלום\tپنیر‌ها 👩‍🔬\nünïcode";
  assert.equal(visible(plain), plain);
});

test("a queue says how many it has, of how many, and where it ends", () => {
  const items = Array.from({ length: 10 });
  assert.equal(cutOf("outliers", { items, total: 10, of: 200, cut: "those above 3" }), "10 of 200 episodes: those above 3.");
  assert.equal(cutOf("mislabeled", { items, total: 10, of: 12, left_out: "1 episode left out" }), "10 of 12 episodes. 1 episode left out.");
  assert.equal(cutOf("leaks", { items, total: 1200 }), "1,200 pairs, the first 10 are listed.");
  assert.equal(cutOf("duplicates", { items: [{}], total: 1 }), "1 group.");
});

test("places and layouts are called by the ends that tell them apart", () => {
  const values = ["wshard", "layout:/tmp/a/lab/own.toml", "layout:/tmp/b/lab/own.toml", "layout:/tmp/c/other.toml"];
  assert.deepEqual([...briefNames(values).values()], ["wshard", "layout:a/lab/own.toml", "layout:b/lab/own.toml", "layout:other.toml"]);
  assert.deepEqual([...briefNames(["/data/x/one", "/data/one", "/data/one"], 2).values()], ["x/one", "data/one"]);
  assert.deepEqual([...briefNames(["s3://bucket/a/b"]).values()], ["b"]);
  const read = ["layout:guess?name %3D %22guess%22%0Acontainer %3D %22npz%22", "layout:table?actions=grip"];
  assert.deepEqual([...briefNames(read).values()], ["npz, guessed", "layout:table"]);
});

test("fields have names that people read, and no two of them one", () => {
  const names = ["env", "meta.task", "score.rating", "folder", "meta.arm_type", 'meta.robot."left arm"', 'meta."say \\"x\\""', "meta.success", "success"];
  const expected = ["Environment", "Task", "Rating", "Folder", "Arm type", "Robot.left arm", 'Say "x"', "meta.success", "Success"];
  assert.deepEqual(names.map((name) => titleOf(name)), expected);
  assert.equal(titleOf("path", { path: "File" }), "File");
});

test("a location leaves out the file that its episode is named after", () => {
  const at = (path, key = "") => locationOf({ root: "/data/lab", path, key }, "run_1");
  assert.equal(at("/data/lab/anna/run_1.csv"), "lab/anna");
  assert.equal(at("/data/lab/run_1.csv"), "lab");
  assert.equal(at("/data/lab/anna/run_1"), "lab/anna");
  assert.equal(at("/data/lab/run_1/log.csv"), "lab/run_1/log.csv");
  assert.equal(at("/data/lab/run_1.h5", "demo_3"), "lab/run_1.h5#demo_3");
  assert.equal(at("/data/lab", "3"), "lab#3");
});

test("what an episode is comes from a list or from its metadata, each text once", () => {
  const own = { env_id: "lift", metadata: { task: "lift", "arm type": { side: "left" }, seed: 3 } };
  assert.equal(labelOf(own), "lift");
  assert.equal(labelOf(own, ["env", 'meta."arm type".side', "meta.seed", "meta.none.deep"]), "lift · left");
  assert.equal(labelOf({ env: "push", "meta.task": "push the T", env_id: "other" }), "push · push the T");
});
