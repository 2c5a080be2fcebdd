"""Compare what two alike episodes have in lanes with too many gaps, which no vector is made of."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.curation.time_rate import interpolate
from bridge.curation.time_shift import MAX_NOISE
from bridge.episodes.open import open_at
from bridge.episodes.read import Failure, attempt
from bridge.spaces.lanes import is_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.curation.arrays import Floats
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from embedders.space import Space

Position = tuple[float, int]


class LanesWithGaps:
    """The observations that gaps keep out of vectors, as the catalog knows them; it is asked once, when needed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @cached_property
    def _by_episode(self) -> dict[int, frozenset[str]]:
        """Names of such lanes by episode id."""
        layouts = self._catalog.query.layouts()
        names = {
            lane.name for one in layouts for lane in one.lanes if lane.name.startswith("signal/") and is_vector(lane)
        }
        found = self._catalog.query.lanes_without_numbers([one.id for one in layouts], sorted(names))
        return {id_: lanes for of_layout in found.values() for id_, lanes in of_layout.items()}

    def differ(
        self, space: Space, rows: tuple[EpisodeRow, EpisodeRow], position: Position, span: tuple[int, int] | None
    ) -> bool:
        """Return whether the files show, in these lanes of either episode, that the two are no duplicates.

        Files of episodes without such lanes are not opened. position: (rate, shift): timestep t of the right is
        timestep t * rate + shift of the left; span: timesteps of the left that are compared, None for all. Only those
        count at which both have numbers. False if there are none, or a file cannot be read.
        """
        names = frozenset().union(*(self._by_episode.get(row.id, ()) for row in rows))
        if not (names := names - {lane.name for lane in space.lanes}):
            return False
        left, right = (_read_lanes(row, names) for row in rows)
        pairs = [(left[name], right[name]) for name in left.keys() & right.keys()]
        return any(
            _difference(one, other, position, span) > MAX_NOISE
            for one, other in pairs
            if one.shape[1] == other.shape[1]
        )


def _read_lanes(row: EpisodeRow, names: frozenset[str]) -> dict[str, Floats]:
    """Return those of these lanes [T, D] that an episode has."""

    def read() -> dict[str, Floats]:
        with open_at(row.address) as file:
            return {name: _columns(file.lane(name)) for name in file.lanes().keys() & names}

    found = attempt(read, row.address)
    return {} if isinstance(found, Failure) else found


def _columns(values: NDArray[Any]) -> Floats:
    return values.reshape(len(values), -1).astype(np.float64)


def _difference(left: Floats, right: Floats, position: Position, span: tuple[int, int] | None) -> float:
    """Return the root mean square of what differs where both have numbers, in standard deviations; 0 for nowhere."""
    rate, shift = position
    times = np.arange(len(right)) * rate + shift
    start, stop = span or (0, len(left))
    inside = (times >= start) & (times <= stop - 1)
    deviations = np.ma.masked_invalid(np.concatenate([left, right])).std(axis=0).filled(0.0)
    with np.errstate(all="ignore"):
        apart = (interpolate(left, times[inside]) - right[inside]) / np.where(deviations > 0, deviations, 1.0)
    found = apart[np.isfinite(apart)]
    return float(np.sqrt(np.square(found).mean())) if found.size else 0.0
