"""Names are in natural order: runs of digits compare by their value."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wshard.core.episode import natural_order
from wshard.core.episode.natural_order import natural_key, order_naturally, sort_naturally

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGITS = "0123456789"
NAMES = st.lists(st.text(st.sampled_from("0019a_-/: é²٣𝄞\uffff\x01")) | st.from_regex(r"[a-z]{0,2}[0-9]{7,20}_?[0-9]*"))


def parse(name: str) -> list[str | int]:
    runs = [(is_number, "".join(run)) for is_number, run in groupby(name, key=lambda letter: letter in DIGITS)]
    return [part for is_number, run in runs for part in ([int(run)] if is_number else run)]


def compare(left: str, right: str) -> int:
    """Return the sign of left - right, part by part; a number has the place of digits among characters."""
    for one, other in zip(parse(left), parse(right), strict=False):
        if one != other:
            same_kind = type(one) is type(other)
            return 1 if (one > other if same_kind else str(one)[0] > str(other)[0]) else -1
    return len(parse(left)) - len(parse(right))


def brute_force(names: Sequence[str]) -> list[str]:
    return sorted(sorted(names), key=cmp_to_key(compare))


def test_numbers_in_names_compare_by_value() -> None:
    expected = ["demo_2", "demo_2b", "demo_9", "demo_10", "demo_100", "demo_" + "9" * 5000, "demo_1" + "0" * 5000]
    assert sort_naturally(sorted(expected)) == expected


@given(NAMES)
def test_keys_sort_as_parts_compare(names: list[str]) -> None:
    assert sort_naturally(names) == brute_force(names)
    assert sorted(sorted(names), key=natural_key) == brute_force(names)


@given(NAMES)
def test_names_are_ordered_in_parts_as_at_once(names: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(natural_order, "_AT_ONCE", 3)
        for some in (names, sort_naturally(names)):
            assert [some[number] for number in order_naturally(some)] == sort_naturally(names)
