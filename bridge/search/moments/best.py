"""Finds the best moments among windows of the index, spans near the query at some speed, and copies of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.search.moments.found_windows import select_candidates
from bridge.search.moments.identical import find_identical, find_source
from bridge.search.moments.narrow import narrow
from bridge.search.moments.refine import choose, refine, refine_paced
from bridge.search.moments.scan import pace

if TYPE_CHECKING:
    from bridge.search.moments.all_lanes import Loaded
    from bridge.search.moments.found_windows import FoundWindows
    from bridge.search.moments.lane_rows import PreparedRows
    from bridge.search.moments.overlap import MomentLimits
    from bridge.search.moments.refine import Moment
    from embedders.space import Statistics


@dataclass(frozen=True, eq=False)
class Depth:
    """How many moments are wanted, in what units rows are compared, and how many candidates are refined for them."""

    limits: MomentLimits
    scaling: Statistics
    refined: int


def find_best(
    query: PreparedRows,
    source: tuple[int, int] | None,
    found: tuple[FoundWindows, FoundWindows],
    loaded: Loaded,
    depth: Depth,
) -> list[Moment]:
    """Return the best moments, best first.

    source: the episode of the query and its first timestep there, if that may be a hit. found: the windows near the
    query, and those near it but for an offset.
    """
    limits, lanes = depth.limits, loaded.lanes
    if loaded.timesteps is None:
        return []
    own = [] if source is None or source[0] not in lanes else find_source(query.rows, *source, lanes)
    same, *others = loaded.timesteps.scan(pace(query.rows), depth.refined, loaded.allowed)
    windows = select_candidates(*found, limits, depth.refined, (lanes, loaded.stale))
    windows = narrow(query, windows, lanes, depth.refined, sure=limits.top_k)
    moments = [
        *own,
        *find_identical(query.rows, loaded.timesteps, lanes),
        *refine(query, windows.joined(same), lanes, limits),
    ]
    for nearest in others:
        moments += refine_paced(nearest, query, lanes, limits)
    return choose(moments, limits, len(own))
