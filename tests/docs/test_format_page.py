"""The byte spec is proved: tests cite every numbered rule of FORMAT.md, and none that is not there."""

from __future__ import annotations

import re

from paths import ROOT

RULE = re.compile(r"^\* \*\*([CMEJR])-(\d+)\*\*", re.MULTILINE)
CITED = re.compile(r"\b([CMEJR])-(\d+)(?: to [CMEJR]-(\d+))?\b")


def cited(text: str) -> set[tuple[str, int]]:
    return {
        (part, number)
        for part, first, last in CITED.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }


def test_ranges_of_rules_are_read_as_all_of_them():
    assert cited("E-8, C-20 to C-22 and J-1.") == {("E", 8), ("C", 20), ("C", 21), ("C", 22), ("J", 1)}


def test_every_rule_is_cited_by_a_test_and_no_other():
    rules = {(part, int(number)) for part, number in RULE.findall((ROOT / "wshard" / "FORMAT.md").read_text())}
    tests = [path.read_text() for room in ("compat", "wshard") for path in (ROOT / "tests" / room).rglob("test_*.py")]
    found = set().union(*map(cited, tests))
    assert len(rules) > 60
    assert sorted(rules ^ found) == []
