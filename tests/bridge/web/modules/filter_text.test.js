import assert from "node:assert/strict";
import { test } from "node:test";
import { partsOf, quoteValue, setRange, toggleValue, typedAt, valuesOf } from "../../../../bridge/web/pages/model/filter_text.js";

test("parts end at spaces outside of quotes and parentheses", () => {
  const texts = partsOf('env:a "pick up" (a:1 OR b:"x)y") -tag:z').map((part) => part.text);
  assert.deepEqual(texts, ["env:a", '"pick up"', '(a:1 OR b:"x)y")', "-tag:z"]);
  const named = partsOf('meta."a b":1 meta.x[2]:3 meta.größe:4 -meta.תווית:*');
  assert.deepEqual(named.map((part) => part.field), ['meta."a b"', "meta.x[2]", "meta.größe", "meta.תווית"]);
});

test("values are toggled one by one", () => {
  let text = toggleValue("length:3..", "env", "reach-v3");
  assert.equal(text, "length:3.. env:reach-v3");
  text = toggleValue(text, "env", "two words");
  assert.equal(text, 'length:3.. env:reach-v3,"two words"');
  assert.deepEqual(valuesOf(text, "env"), ["reach-v3", '"two words"']);
  text = toggleValue(toggleValue(text, "env", "reach-v3"), "env", "two words");
  assert.equal(text, "length:3..");
  assert.equal(toggleValue("success:true", "success", null), "-success:*");
  assert.equal(toggleValue("-success:*", "success", null), "");
});

test("what stands beside OR stays together", () => {
  assert.equal(toggleValue("a:1 OR b:2", "env", "x"), "(a:1 OR b:2) env:x");
  assert.equal(setRange("a:1 OR b:2", "length", 1, 2), "(a:1 OR b:2) length:1..2");
});

test("values are quoted where the language needs it", () => {
  assert.equal(quoteValue("plain/name-1.5"), "plain/name-1.5");
  for (const text of ["", "a b", 'say "x"', "12", "true", "OR", "a..b", "back\\slash", "-x", "é"]) {
    assert.notEqual(quoteValue(text), text);
  }
  assert.equal(quoteValue(12), "12");
});

test("ranges replace one another", () => {
  assert.equal(setRange("env:a length:>3", "length", 1, 2.5), "env:a length:1..2.5");
  assert.equal(setRange("length:1..2", "length", null, 5), "length:<=5");
  assert.equal(setRange("length:1..2", "length", null, null), "");
});

test("what is typed is found up to the caret", () => {
  assert.deepEqual(typedAt("env:a le", 8), { start: 6, field: "", typed: "le" });
  assert.deepEqual(typedAt("(-env:a,re", 10), { start: 8, field: "env", typed: "re" });
  assert.deepEqual(typedAt("env:a ", 6), { start: 6, field: "", typed: "" });
});
