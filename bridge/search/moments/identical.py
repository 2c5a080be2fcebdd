"""Finds spans of episodes that equal a query, or do except for an offset: no window need cover them exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.offsets import SHIFT_COST
from bridge.search.moments.refine import Moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.alignment.arrays import Rows
    from bridge.search.moments.block_distances import Nearest
    from bridge.search.moments.lane_rows import PreparedRows

_ROUNDING: Final = 1e-4  # standard deviations by which values rounded to float32 may differ
_MIN_CHANGE: Final = 1e-2  # standard deviations between adjacent timesteps that cannot be rounding


def find_source(query: Rows, episode: int, start: int, lanes: Mapping[int, PreparedRows]) -> list[Moment]:
    """Return the span that the query is from, which short windows, being similar, need not lead to."""
    stop = start + len(query)
    same = np.array_equal(lanes[episode].rows[start:stop], query)
    return [_diagonal_moment(episode, start, stop)] if same else []


def _diagonal_moment(episode: int, start: int, stop: int, cost: float = 0.0) -> Moment:
    return Moment(episode, start, stop, cost, np.arange(stop - start)[:, None] + np.array([0, start]))


def find_identical(query: Rows, candidates: Sequence[Nearest], lanes: Mapping[int, PreparedRows]) -> list[Moment]:
    """Return the candidates, spans as long as the query, that equal it except for an offset.

    If nothing moves, every constant span would, so it must equal it without one.
    """
    steps, identical, last = len(query), list[Moment](), (-1, 0)
    is_moving = steps > 1 and np.abs(np.diff(query, axis=0)).max() > _MIN_CHANGE
    found = {
        (episode, start)
        for one in candidates
        for episode, start in zip(one.episodes.tolist(), one.spans[:, 0].tolist(), strict=True)
    }
    for episode, start in sorted(found):
        if episode == last[0] and start < last[1]:
            continue  # where nothing moves, a copy would start at every timestep
        rows = lanes[episode].rows[start : start + steps]
        differences = query - rows
        equal, offset = not differences.any(), differences.mean(axis=0)
        if equal or (is_moving and np.abs(differences - offset).max() <= _ROUNDING):
            last = episode, start + steps
            cost = 0.0 if equal else SHIFT_COST * float(np.sqrt((offset**2).mean()))
            identical.append(_diagonal_moment(episode, start, start + steps, cost))
    return identical
