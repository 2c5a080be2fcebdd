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


def find_spans(matches: Matches, rows: Mapping[int, EpisodeRow], plan: WindowPlan) -> tuple[Ints, Ints]:
    """Return the places [n] of matches whose windows still exist, and the timesteps [n, 2] of these windows.

    An episode may have been removed, or ingested again and shorter, since the index answered.
    """
    ids, windows = matches.episodes.tolist(), matches.windows
    tables: dict[int, tuple[Ints, int]] = {}  # most episodes have one of a few lengths
    begins, counts, total = {}, {}, 0
    for episode in {*ids}:
        row = rows.get(episode)
        length = 0 if row is None else row.length
        if length not in tables:
            tables[length] = _spans(plan, length), total
            total += len(tables[length][0])
        table, begins[episode] = tables[length]
        counts[episode] = len(table)
    first, count = (np.fromiter(map(of.__getitem__, ids), np.int64, len(ids)) for of in (begins, counts))
    places = np.flatnonzero(windows < count)
    spans = np.concatenate([_NO_SPANS, *(table for table, _ in tables.values())])
    return places, spans.take(first[places] + windows[places], axis=0)


@lru_cache(maxsize=2048)
def _spans(plan: WindowPlan, length: int) -> Ints:
    return plan.spans(length)
