"""Spaces in words."""

from __future__ import annotations

from dataclasses import replace

from bridge.spaces.identity import describe, describe_lanes, newest
from embedders import LaneSpec, Space, WindowPlan


def space_of(count: int) -> Space:
    lanes = tuple(LaneSpec(f"signal/{number}", (2,)) for number in range(count))
    return Space("stats", 1, {}, lanes, WindowPlan(), 1, "cosine", None)


def test_many_lanes_are_counted_and_few_are_named():
    assert describe_lanes(space_of(6)).endswith("signal/4[2], signal/5[2] (12 channels)")
    long = describe_lanes(space_of(40))
    assert long == ", ".join(f"signal/{number}[2]" for number in range(5)) + ", 35 more lanes (80 channels)"
    assert describe(space_of(40)).startswith(f"stats over {long}, whole episodes, Space ")


def test_a_newer_space_replaces_the_older_one_of_another_size():
    older, newer = (replace(space_of(2), dim=dim) for dim in (9, 4))
    other = replace(space_of(2), dim=4, parameters={"length": 9})
    assert newest([older, newer]) == [newer]
    assert newest([newer, older]) == [older]
    assert newest([older, other]) == [older, other]
    assert newest([older, replace(older, version=2)]) == [replace(older, version=2)]
