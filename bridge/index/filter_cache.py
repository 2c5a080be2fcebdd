"""Which episodes pass a filter, remembered.

Knows: that an answer holds until the catalog's clock moves. Does not know: SQL, vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from catalog.filters.where import EVERYTHING

if TYPE_CHECKING:
    from bridge.index.embedded.arrays import Ids
    from catalog.catalog import Catalog
    from catalog.filters.where import Where

_FILTERS: Final = 256  # remembered at most
_EPISODES: Final = 2_000_000  # in all of them: 16 MB


class Passing:
    """The episodes of a catalog that pass the filters asked for lately."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._forget(-1)

    def ids(self, where: Where, clock: int) -> Ids | None:
        """Return the ids of the episodes that pass, as of this clock; None = all."""
        if where == EVERYTHING:
            return None
        if self._clock != clock or len(self._known) >= _FILTERS or self._episodes >= _EPISODES:
            self._forget(clock)
        found = self._known.get(where)
        if found is None:
            found = self._known[where] = np.array(self._catalog.query.ids(where), np.int64)
            self._episodes += len(found)
        return found

    def _forget(self, clock: int) -> None:
        self._clock = clock
        self._known: dict[Where, Ids] = {}
        self._episodes = 0
