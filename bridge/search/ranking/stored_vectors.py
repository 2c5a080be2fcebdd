"""The stored vectors of episodes, by which ranking compares hits with queries and with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import read_vectors

if TYPE_CHECKING:
    from collections.abc import Collection

    from bridge.archive import Archive
    from bridge.index.base import Vectors
    from catalog.session import Instant
    from embedders.space import Space

_SAMPLE: Final = 64  # episodes: their mean similarity to a query has an error of a hundredth or two


class StoredVectors:
    """Reads vectors of episodes; of each Space a sample of episodes stays in memory until the archive has doubled."""

    def __init__(self, archive: Archive) -> None:
        self._catalog = archive.catalog
        self._index = archive.index
        self._numbers: dict[str, int] = {}
        self._samples: dict[str, tuple[int, list[Vectors]]] = {}
        self._life = ""

    def load(self, space: Space, episodes: Collection[int]) -> dict[int, Vectors]:
        """Return the vectors [n, E] of those of the episodes that have any in the Space, by id.

        They come from the index where it has them at hand, else from the ledger. Raises SpaceMismatchError.
        """
        return read_vectors(self._index, space, catalog=self._catalog, episodes=episodes) if episodes else {}

    def background(self, space: Space, query: Vectors) -> float:
        """Return the mean cosine of the query [E] with episodes in general; of several vectors the best counts."""
        sample = self._sample(space)
        if not sample:
            return 0.0
        cosines = np.concatenate([vectors @ query for vectors in sample])
        firsts = np.cumsum([0, *map(len, sample[:-1])])
        return float(np.mean(np.maximum.reduceat(cosines, firsts)))

    def _sample(self, space: Space) -> list[Vectors]:
        clock = self._now().clock
        taken, sample = self._samples.get(space.fingerprint, (0, []))
        if not sample or clock > 2 * taken:
            number = self._number(space)
            ids = [] if number is None else self._catalog.vectors.sample(number, _SAMPLE)
            found = self.load(space, ids)
            sample = [found[id_].copy() for id_ in ids if id_ in found]
            self._samples[space.fingerprint] = (clock, sample)
        return sample

    def _number(self, space: Space) -> int | None:
        """Return the id of a Space, which it keeps for the archive's life, None of one that the archive never had."""
        self._now()
        if space.fingerprint not in self._numbers:
            self._numbers |= {row.fingerprint: row.id for row in self._catalog.vectors.spaces()}
        return self._numbers.get(space.fingerprint)

    def _now(self) -> Instant:
        """Return the archive's present instant; what was kept of another life is forgotten."""
        now = self._catalog.instant()
        if now.life != self._life:
            self._life, self._numbers, self._samples = now.life, {}, {}
        return now
