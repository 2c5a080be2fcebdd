"""Caches which Spaces the catalog has, as every search needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.index.stored_rows import find_space, load_spaces

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from embedders.space import Space


class LivingSpaces:
    """The Spaces of one catalog, cached until its clock moves or it is restored."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._state = ("", -1)
        self._ids: dict[str, int] = {}

    def find_all(self, space: Space) -> dict[str, int]:
        """Return the ids of the archive's Spaces by fingerprint, without retired ones.

        Adding a Space does not advance the clock, so an unknown Space is looked up again.
        """
        clock = self._catalog.clock()
        state = (self._catalog.instant().history, clock)
        if state != self._state or space.fingerprint not in self._ids:
            self._state, self._ids = state, load_spaces(self._catalog)
        return self._ids

    def find(self, space: Space) -> int:
        """Return the Space's id; raises SpaceMismatchError unless it is the archive's."""
        return find_space(self.find_all(space), space)
