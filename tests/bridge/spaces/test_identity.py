"""Spaces in words."""

from __future__ import annotations

from bridge.spaces.identity import describe, describe_lanes
from embedders import LaneSpec, Space, WindowPlan


def space_of(count: int) -> Space:
    lanes = tuple(LaneSpec(f"signal/{number}", (2,)) for number in range(count))
    return Space("stats", 1, {}, lanes, WindowPlan(), 1, "cosine", None)


def test_many_lanes_are_counted_and_few_are_named():
    assert describe_lanes(space_of(6)).endswith("signal/4[2], signal/5[2] (12 channels)")
    long = describe_lanes(space_of(40))
    assert long == ", ".join(f"signal/{number}[2]" for number in range(5)) + ", 35 more lanes (80 channels)"
    assert describe(space_of(40)).startswith(f"stats over {long}, whole episodes, Space ")
