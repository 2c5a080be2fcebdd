"""Proposes lanes that may mean the same under different names: of one shape and scale, never both in one episode."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.spaces.lane_statistics import lane_statistics
from bridge.spaces.lanes import chosen_lanes, is_vector
from embedders.lanes import LaneSpec
from embedders.standardise import scales
from wshard.errors import NoLaneError

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.records import Layout
    from embedders.space import Statistics

_MOST_LANES: Final = 32  # the most frequent ones are considered
_FARTHEST: Final = 1.0
"""Standard deviations between the means of a channel of both."""
_LARGEST_RATIO: Final = 2.0
"""Of the standard deviations of a channel of both."""
_ACTION: Final = "action/"


@dataclass(frozen=True)
class AlikeLanes:
    """Two lanes that may mean the same, and the layouts that have each: `rare` has fewer episodes.

    apart: how much they differ in scale.
    """

    rare: str
    frequent: str
    rare_layouts: tuple[int, ...]
    layouts: tuple[int, ...]
    apart: float


def find_alike_lanes(catalog: Catalog) -> list[AlikeLanes]:
    """Return pairs of observations, or of actions, that are never in one episode, and agree in shape and scale.

    Of observations, those that are embedded by default. Lanes whose channels have other names are none. The pairs that
    differ least come first.
    """
    layouts: dict[LaneSpec, dict[int, int]] = {}  # of each lane, with the numbers of episodes
    called: dict[LaneSpec, set[tuple[str, ...]]] = {}  # what the channels of each are called
    for layout in catalog.query.layouts():
        names = {lane.name: lane.names for lane in layout.lanes}
        for lane in (*chosen_lanes(layout), *_actions(layout)):
            layouts.setdefault(lane, {})[layout.id] = layout.episodes
            called.setdefault(lane, set()).update({names[lane.name]} - {()})
    known: dict[LaneSpec, Statistics | None] = {}

    def may_be_one(one: LaneSpec, other: LaneSpec) -> bool:
        is_action = [lane.name.startswith(_ACTION) for lane in (one, other)]
        are_named_apart = bool(called[one] and called[other]) and called[one].isdisjoint(called[other])
        share_layout = bool(layouts[one].keys() & layouts[other].keys())
        return one.shape == other.shape and is_action[0] == is_action[1] and not (are_named_apart or share_layout)

    def measure(lane: LaneSpec) -> Statistics | None:
        if lane not in known:
            try:
                known[lane] = lane_statistics(catalog, [*layouts[lane]], (lane,))
            except NoLaneError:
                known[lane] = None
        return known[lane]

    ordered = sorted(layouts, key=lambda lane: -sum(layouts[lane].values()))[:_MOST_LANES]
    pairs = [pair for pair in combinations(ordered, 2) if may_be_one(*pair)]
    found = [
        AlikeLanes(rare.name, frequent.name, tuple(layouts[rare]), tuple(layouts[frequent]), apart)
        for frequent, rare in pairs
        if (apart := _measure(measure(frequent), measure(rare))) is not None
    ]
    return sorted(found, key=lambda one: one.apart + _differ_in_name(one))


def _actions(layout: Layout) -> list[LaneSpec]:
    vectors = (lane for lane in layout.lanes if lane.name.startswith(_ACTION) and is_vector(lane))
    return [LaneSpec(lane.name, tuple(lane.shape)) for lane in vectors]


def _measure(one: Statistics | None, other: Statistics | None) -> float | None:
    """Return how much the scales of two lanes differ, None if it is too much."""
    if one is None or other is None:
        return None
    first, second = scales(one), scales(other)
    ratios = np.maximum(first / second, second / first)
    distances = np.abs(one.mean - other.mean) / np.maximum(first, second)
    is_alike = bool((ratios <= _LARGEST_RATIO).all() and (distances <= _FARTHEST).all())
    return float((np.log2(ratios) + distances).mean()) if is_alike else None


def _differ_in_name(one: AlikeLanes) -> float:
    return 1 - SequenceMatcher(None, one.rare, one.frequent).ratio()
