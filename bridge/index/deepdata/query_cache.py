"""What every search would ask the catalog again: which Spaces live, which episodes pass the filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.filters.where import EVERYTHING
from wshard.errors import SpaceMismatchError

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from embedders.space import Space


class Remembered:
    """Answers of one catalog, kept as long as its clock stands still and it is not restored.

    life, clock: the catalog's instant when the Spaces were asked for.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.life, self.clock = "", -1
        self._living: dict[str, int] = {}
        self._passing: tuple[int, Where, frozenset[int]] | None = None

    def living(self, space: Space) -> int:
        """Return the Space's id; raises SpaceMismatchError if it is not, or no longer, the archive's."""
        now = self._catalog.instant()
        if now.life != self.life:
            self.life, self.clock, self._passing = now.life, -1, None
        if self.clock != now.clock or space.fingerprint not in self._living:
            self._living = {row.fingerprint: row.id for row in self._catalog.vectors.spaces() if row.state != "retired"}
            self.clock = now.clock
        if space.fingerprint not in self._living:
            told = ", ".join(fingerprint[:12] for fingerprint in self._living) or "none"
            raise SpaceMismatchError(f"expected a Space of this archive ({told}), found {space.fingerprint[:12]}")
        return self._living[space.fingerprint]

    def passing(self, where: Where, clock: int) -> frozenset[int] | None:
        """Return the ids of the episodes that pass as of this clock, None for all."""
        if where == EVERYTHING:
            return None
        kept = self._passing
        if kept is None or kept[:2] != (clock, where):
            kept = (clock, where, frozenset(self._catalog.query.ids(where)))
            self._passing = kept
        return kept[2]
