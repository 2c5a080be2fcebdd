"""The catalogued episodes behind an index's matches, and the timesteps that their windows cover."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bridge.index.base import Matches
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from catalog.session import Instant
    from embedders.windows import WindowPlan

Ints = NDArray[np.int64]

_MAX_ROWS: Final = 10_000  # kept in memory
_NO_SPANS: Final = np.zeros((0, 2), np.int64)


class EpisodeRows:
    """Rows of the catalog by episode id; those read last stay in memory until the catalog changes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._cache: tuple[Instant | None, dict[int, EpisodeRow]] = (None, {})

    def load(self, ids: Collection[int]) -> dict[int, EpisodeRow]:
        """Return the rows of these episodes; those that the catalog does not have are left out."""
        now = self._catalog.instant()
        if self._cache[0] != now or len(self._cache[1]) > _MAX_ROWS:
            self._cache = (now, {})
        cached = self._cache[1]
        if missing := {id_ for id_ in ids if id_ not in cached}:  # a difference of sets would walk the whole cache
            cached |= self._catalog.episodes.rows(missing)
        return {id_: cached[id_] for id_ in ids if id_ in cached}


def find_lengths(episodes: Ints, rows: Mapping[int, EpisodeRow]) -> Ints:
    """Return the timesteps of each of these episodes, 0 of those without a row."""
    return np.array([rows[id_].length if id_ in rows else 0 for id_ in episodes.tolist()], np.int64)


def find_spans(matches: Matches, lengths: Ints, plan: WindowPlan) -> tuple[Ints, Ints]:
    """Return the places [n] of matches whose windows still exist, and the timesteps [n, 2] of these windows.

    lengths: of the episode of each match. It may have been removed, or ingested again and shorter, since the index
    answered.
    """
    each, kinds = np.unique(lengths, return_inverse=True)  # most episodes have one of a few lengths
    tables = [_spans(plan, length) for length in each.tolist()]
    counts = np.array([*map(len, tables)], np.int64)
    places = np.flatnonzero(matches.windows < counts[kinds])
    numbers = (np.cumsum(counts) - counts)[kinds[places]] + matches.windows[places]
    return places, np.concatenate([_NO_SPANS, *tables]).take(numbers, axis=0)


@lru_cache(maxsize=2048)
def _spans(plan: WindowPlan, length: int) -> Ints:
    return plan.spans(length)
