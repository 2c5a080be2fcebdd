"""Proposes lanes that may mean the same under different names: of one shape and scale, never both in one episode."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.spaces.lane_statistics import lane_statistics
from bridge.spaces.lanes import LaneChoice, choose_lanes
from embedders.standardise import scales
from wshard.errors import NoLaneError

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from embedders.lanes import LaneSpec
    from embedders.space import Statistics

_MOST_LANES: Final = 32  # the most frequent ones are considered
_FARTHEST: Final = 1.0
"""Standard deviations between the means of a channel of both."""
_LARGEST_RATIO: Final = 2.0
"""Of the standard deviations of a channel of both."""


@dataclass(frozen=True)
class AlikeLanes:
    """Two lanes that may mean the same, and the layouts that have each: `rare` has fewer episodes."""

    rare: str
    frequent: str
    rare_layouts: tuple[int, ...]
    layouts: tuple[int, ...]

    @property
    def names(self) -> frozenset[str]:
        """Both names."""
        return frozenset((self.rare, self.frequent))


def find_alike_lanes(catalog: Catalog) -> list[AlikeLanes]:
    """Return pairs of lanes that are embedded by default, are never in one episode, and agree in shape and scale.

    Lanes whose channels have other names are none.
    """
    layouts: dict[LaneSpec, dict[int, int]] = {}  # of each lane, with the numbers of episodes
    called: dict[LaneSpec, set[tuple[str, ...]]] = {}  # what the channels of each are called
    for layout in catalog.query.layouts():
        try:
            lanes = choose_lanes(layout.lanes, LaneChoice())
        except NoLaneError:
            continue
        names = {lane.name: lane.names for lane in layout.lanes}
        for lane in lanes:
            layouts.setdefault(lane, {})[layout.id] = layout.episodes
            called.setdefault(lane, set()).update({names[lane.name]} - {()})
    known: dict[LaneSpec, Statistics | None] = {}

    def are_named_apart(one: LaneSpec, other: LaneSpec) -> bool:
        return bool(called[one] and called[other]) and called[one].isdisjoint(called[other])

    def measure(lane: LaneSpec) -> Statistics | None:
        if lane not in known:
            try:
                known[lane] = lane_statistics(catalog, [*layouts[lane]], (lane,))
            except NoLaneError:
                known[lane] = None
        return known[lane]

    ordered = sorted(layouts, key=lambda lane: -sum(layouts[lane].values()))[:_MOST_LANES]
    return [
        AlikeLanes(rare.name, frequent.name, tuple(layouts[rare]), tuple(layouts[frequent]))
        for frequent, rare in combinations(ordered, 2)
        if frequent.shape == rare.shape
        and not layouts[frequent].keys() & layouts[rare].keys()
        and not are_named_apart(frequent, rare)
        and _is_alike(measure(frequent), measure(rare))
    ]


def _is_alike(one: Statistics | None, other: Statistics | None) -> bool:
    if one is None or other is None:
        return False
    first, second = scales(one.std), scales(other.std)
    ratios = np.maximum(first / second, second / first)
    distances = np.abs(one.mean - other.mean) / np.maximum(first, second)
    return bool((ratios <= _LARGEST_RATIO).all() and (distances <= _FARTHEST).all())
