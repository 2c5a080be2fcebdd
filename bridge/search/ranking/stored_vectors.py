"""The vectors that an archive holds, by episode: what hits are compared with each other by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import decode_vectors

if TYPE_CHECKING:
    from collections.abc import Collection

    from bridge.index.base import Vectors
    from catalog.catalog import Catalog
    from catalog.session import Instant
    from embedders.space import Space

_SAMPLE: Final = 64  # episodes: their mean similarity to a query has an error of a hundredth or two


class Holdings:
    """Reads vectors of episodes; of each Space a sample of episodes is kept until the archive has doubled."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._numbers: dict[str, int] = {}
        self._samples: dict[str, tuple[int, list[Vectors]]] = {}
        self._life = ""

    def vectors(self, space: Space, episodes: Collection[int]) -> dict[int, Vectors]:
        """Return the vectors [n, E] of those of the episodes that have any in the Space, by id."""
        number = self._number(space)
        found = {} if number is None or not episodes else self._catalog.vectors.load(number, episodes)
        return {id_: decode_vectors(id_, data, (count, space.dim)) for id_, (count, data) in found.items()}

    def background(self, space: Space, query: Vectors) -> float:
        """Return the mean cosine of the query [E] with episodes in general; of several vectors the best counts."""
        sample = self._sample(space)
        return float(np.mean([(vectors @ query).max() for vectors in sample])) if sample else 0.0

    def _sample(self, space: Space) -> list[Vectors]:
        clock = self._now().clock
        taken, sample = self._samples.get(space.fingerprint, (0, []))
        if not sample or clock > 2 * taken:
            number = self._number(space)
            ids = [] if number is None else self._catalog.vectors.sample(number, _SAMPLE)
            sample = [*self.vectors(space, ids).values()]
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
