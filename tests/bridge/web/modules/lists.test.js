import assert from "node:assert/strict";
import { test } from "node:test";
import { Blocks } from "../../../../bridge/web/pages/blocks.js";
import { positionOf, rowAt, scrollHeight } from "../../../../bridge/web/pages/scrolling.js";

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
