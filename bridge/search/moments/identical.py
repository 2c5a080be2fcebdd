"""Finds spans of episodes that equal a query, or do except for an offset: no window need cover them exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.offsets import SHIFT_COST
from bridge.search.moments.refine import Moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.lane_rows import PreparedRows
    from bridge.search.moments.scan import Timesteps

_ROUNDING: Final = 1e-4  # standard deviations by which values rounded to float32 may differ
_DOUBLE_ROUNDING: Final = 3e-4  # the same for differences of two rounded values, with a margin
_MIN_CHANGE: Final = 1e-2  # standard deviations between adjacent timesteps that cannot be rounding


def find_source(query: Rows, episode: int, start: int, lanes: Mapping[int, PreparedRows]) -> list[Moment]:
    """Return the span that the query is from, which short windows, being similar, need not lead to."""
    stop = start + len(query)
    same = np.array_equal(lanes[episode].rows[start:stop], query)
    return [_diagonal_moment(episode, start, stop)] if same else []


def _diagonal_moment(episode: int, start: int, stop: int, cost: float = 0.0) -> Moment:
    return Moment(episode, start, stop, cost, np.arange(stop - start)[:, None] + np.array([0, start]))


def find_identical(query: Rows, timesteps: Timesteps, lanes: Mapping[int, PreparedRows]) -> list[Moment]:
    """Return all spans of the episodes that equal the query except for an offset. timesteps: of these and others."""
    steps, identical = len(query), []
    changes = np.diff(query, axis=0)
    place, channel = np.unravel_index(np.abs(changes).argmax(), changes.shape) if steps > 1 else (0, 0)
    is_moving = steps > 1 and abs(changes[place, channel]) > _MIN_CHANGE  # the largest change is the most selective
    for episode, starts in _find_starts(query, timesteps, (int(place), int(channel)), is_moving=is_moving):
        if episode not in lanes:
            continue
        rows, last_stop = lanes[episode].rows, 0
        for start in (_keep_equal_changes(rows, starts, changes) if is_moving else starts).tolist():
            if start < last_stop:
                continue  # where nothing moves, a copy would start at every timestep
            offsets = query - rows[start : start + steps]
            offset = offsets.mean(axis=0)
            if np.abs(offsets - offset).max() > _ROUNDING:
                continue
            equal = np.array_equal(rows[start : start + steps], query)
            if equal or is_moving:
                last_stop = start + steps
                cost = 0.0 if equal else SHIFT_COST * float(np.sqrt((offset**2).mean()))
                identical.append(_diagonal_moment(episode, start, last_stop, cost))
    return identical


def _keep_equal_changes(rows: Rows, starts: Ints, changes: Rows) -> Ints:
    """Keep the start timesteps from which the largest change of every channel equals the query's."""
    for channel, step in enumerate(np.abs(changes).argmax(axis=0).tolist()):
        if not len(starts):
            break
        found_changes = rows[starts + step + 1, channel] - rows[starts + step, channel]
        starts = starts[np.abs(found_changes - changes[step, channel]) <= _DOUBLE_ROUNDING]
    return starts


def _find_starts(
    query: Rows, timesteps: Timesteps, step: tuple[int, int], *, is_moving: bool
) -> Iterator[tuple[int, Ints]]:
    """Yield episodes and the timesteps at which a copy of the query may start in them, none of them too late.

    step: timestep and channel of the largest change in the query. If nothing moves, every constant span would be equal
    except for an offset, so the first timestep must be equal.
    """
    place, channel = step if is_moving else (0, 0)
    column = timesteps.rows[:, channel]
    if is_moving:
        places = np.flatnonzero(
            np.abs(np.diff(column) - (query[place + 1, channel] - query[place, channel])) <= _ROUNDING
        )
    else:
        places = np.flatnonzero(column == query[0, channel])
        places = places[(timesteps.rows[places] == query[0]).all(axis=1)]
    places = places - place
    owners = timesteps.edges.searchsorted(places, side="right") - 1
    fits = (owners >= 0) & (places + len(query) <= timesteps.edges[np.minimum(owners, len(timesteps.episodes) - 1) + 1])
    places, owners = places[fits], owners[fits]
    for owner in np.unique(owners).tolist():
        yield int(timesteps.episodes[owner]), places[owners == owner] - timesteps.edges[owner]
