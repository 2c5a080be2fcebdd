"""Caches what every search asks the catalog: its Spaces, and the episodes that pass a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.stored_rows import find_space, load_spaces
from catalog.filters.where import EVERYTHING

if TYPE_CHECKING:
    from bridge.index.base import Ids
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from embedders.space import Space

_FILTERS: Final = 256  # cached at most
_EPISODES: Final = 2_000_000  # in all of them: 16 MB


class FilterCache:
    """Answers of one catalog, cached until its clock moves or it is restored."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._life, self._clock = "", -1
        self._spaces: dict[str, int] = {}
        self._allowed: dict[Where, Ids] = {}
        self._episodes = 0

    def find_spaces(self, space: Space, clock: int) -> dict[str, int]:
        """Return the ids of the archive's Spaces by fingerprint, without retired ones, as of this clock.

        Adding a Space does not advance the clock, so an unknown Space is looked up again.
        """
        self._follow(clock)
        if space.fingerprint not in self._spaces:
            self._spaces = load_spaces(self._catalog)
        return self._spaces

    def find_space(self, space: Space, clock: int) -> int:
        """Return the Space's id as of this clock; raises SpaceMismatchError unless it is the archive's."""
        return find_space(self.find_spaces(space, clock), space)

    def find_episodes(self, where: Where, clock: int) -> Ids | None:
        """Return the ids of the episodes that pass, ascending, as of this clock; None = all."""
        if where == EVERYTHING:
            return None
        self._follow(clock)
        if len(self._allowed) >= _FILTERS or self._episodes >= _EPISODES:
            self._allowed, self._episodes = {}, 0
        allowed = self._allowed.get(where)
        if allowed is None:
            allowed = self._allowed[where] = np.array(self._catalog.query.ids(where), np.int64)
            self._episodes += len(allowed)
        return allowed

    def _follow(self, clock: int) -> None:
        """Clear the cache if the clock has moved, or another catalog was restored in this place."""
        life = self._catalog.instant().history
        if (self._life, self._clock) != (life, clock):
            self._life, self._clock, self._spaces, self._allowed, self._episodes = life, clock, {}, {}, 0
