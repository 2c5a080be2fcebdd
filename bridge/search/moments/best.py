"""Finds the best moments among windows of the index, spans near the query at some speed, and copies of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.found_windows import select_candidates
from bridge.search.moments.identical import find_identical, find_source
from bridge.search.moments.narrow import narrow
from bridge.search.moments.refine import choose, refine, refine_paced
from bridge.search.moments.scan import pace
from bridge.search.moments.steady import steady

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints
    from bridge.search.moments.found_windows import FoundWindows
    from bridge.search.moments.lane_rows import PreparedRows
    from bridge.search.moments.overlap import MomentLimits
    from bridge.search.moments.refine import Moment
    from bridge.search.moments.scan import Timesteps


_SAME: Final = 0.8  # overlap above which a window is refined to what a span of the scan is


@dataclass(frozen=True, eq=False)
class Depth:
    """How many moments are wanted, how many candidates are refined for them, and of which episodes (None: of all)."""

    limits: MomentLimits
    refined: int
    allowed: Ints | None = None


def find_best(
    query: PreparedRows,
    source: tuple[int, int] | None,
    found: FoundWindows,
    timesteps: Timesteps,
    depth: Depth,
) -> tuple[list[Moment], bool]:
    """Return the best moments, best first, and whether no span of an episode was missed.

    source: the episode of the query and its first timestep there, if that may be a hit. found: the windows near the
    query.
    """
    limits = depth.limits
    own = []
    if source is not None and _are_eligible(np.array(source[:1]), timesteps, depth.allowed)[0]:
        own = find_source(query.rows, *source, timesteps)
    scanned = timesteps.scan(pace(query.rows), depth.refined, depth.allowed)
    eligible = found.take(_are_eligible(found.episodes, timesteps, depth.allowed))
    windows = select_candidates(eligible, limits, depth.refined)
    windows = narrow(query, windows, timesteps, depth.refined, sure=limits.top_k).apart_from(scanned.same, _SAME)
    windows = windows.joined(scanned.same).joined(scanned.shifted, free=True)
    refined, weights = refine(query, windows, timesteps, limits)
    for nearest in scanned.others:
        refined += refine_paced(nearest, query, weights, timesteps)
    copies = find_identical(query.rows, (scanned.equal, scanned.shifted), timesteps)
    moments = [*own, *copies, *steady(query, weights, refined, timesteps)]
    return choose(moments, limits, len(own)), scanned.is_complete


def _are_eligible(episodes: Ints, timesteps: Timesteps, allowed: Ints | None) -> NDArray[np.bool_]:
    """Return which of these episodes may have moments [n]."""
    eligible = timesteps.locate(episodes)[1] > 0
    return eligible if allowed is None else eligible & np.isin(episodes, allowed)
