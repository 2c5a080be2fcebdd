"""The stored vectors of episodes, by which ranking compares hits with queries and with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.stored_rows import read_vectors
from bridge.search.ranking.block_weights import NEIGHBOURS, SHARPNESS, BlockWeights, measure_weights
from embedders.registry import DEFAULT_EMBEDDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bridge.archive import Archive
    from bridge.index.derived_numbers import DerivedNumbers
    from bridge.index.stored_rows import StoredRows
    from bridge.search.ranking.query_vector import QueryVector
    from catalog.session import Instant
    from embedders.space import Space

_SAMPLE: Final = 64  # episodes: their mean similarity to a query has an error of a hundredth or two
_GROUPED: Final = 512  # whole episodes: of so many even one in fifty has several like it among them


class StoredVectors:
    """Reads vectors of episodes; of each Space a sample of episodes stays in memory until the archive has doubled."""

    def __init__(self, archive: Archive) -> None:
        self._catalog = archive.catalog
        self._index = archive.index
        self._numbers: dict[str, int] = {}
        self._samples: dict[str, tuple[int, StoredRows]] = {}
        self._weights: dict[str, tuple[int, BlockWeights]] = {}
        self._life = ""

    def load(self, space: Space, episodes: Iterable[int]) -> StoredRows:
        """Return the vectors of those of the episodes that have any in the Space. Raises SpaceMismatchError.

        They come from the index where it has them at hand, else from the ledger.
        """
        return read_vectors(self._index, space, catalog=self._catalog, episodes=episodes)

    def background(self, query: QueryVector) -> float:
        """Return the mean cosine of the query with episodes in general; of several vectors the best counts."""
        sample = self._sample(query.space)
        if not len(sample.episodes):
            return 0.0
        vector, top = query.weighed
        return float(np.mean(np.maximum.reduceat(sample.vectors @ vector, sample.starts[:-1]), dtype=np.float64)) / top

    def weights(self, space: Space, sizes: Sequence[int]) -> BlockWeights:
        """Return what the descriptors of these sizes count in a Space, until the archive has doubled.

        Of a single channel windows count nothing beside `blocks`: the path along it, which is all that they describe,
        has no shape.
        """
        if space.channels == 1 and space.embedder == DEFAULT_EMBEDDER:
            return BlockWeights(windows=0.0)
        if len(sizes) < 2 or not space.windows.whole:
            return BlockWeights()
        clock = self._now().clock
        taken, weights = self._weights.get(space.fingerprint, (0, None))
        if weights is None or clock > 2 * taken:
            name = f"block weights {list(sizes)}, {_GROUPED}, {NEIGHBOURS}, {SHARPNESS}"
            measured = self._derive(space, name, lambda: self._measure(space, sizes))
            weights = BlockWeights.of(measured, sizes)
            self._weights[space.fingerprint] = (clock, weights)
        return weights

    def _sample(self, space: Space) -> StoredRows:
        """Return the vectors of some episodes."""
        clock = self._now().clock
        taken, sample = self._samples.get(space.fingerprint, (0, None))
        if sample is None or not len(sample.episodes) or clock > 2 * taken:
            chosen = self._derive(space, f"sample {_SAMPLE}", lambda: self._choose(space, _SAMPLE))
            sample = self.load(space, map(int, chosen))
            self._samples[space.fingerprint] = (clock, sample)
        return sample

    def _measure(self, space: Space, sizes: Sequence[int]) -> Sequence[float]:
        return measure_weights(self.load(space, self._choose(space, _GROUPED)).vectors, sizes)

    def _choose(self, space: Space, about: int) -> Sequence[int]:
        number = self._number(space)
        return [] if number is None else self._catalog.vectors.sample(number, about)

    def _derive(self, space: Space, name: str, compute: Callable[[], Sequence[float]]) -> Sequence[float]:
        """Return numbers that follow from all vectors of a Space: as stored with the search copy, else computed.

        name: says what they are and how they are computed, so that other versions of this library compute their own.
        """
        before = self._catalog.instant().clock, self._catalog.edition
        open_derived: Callable[[Space], DerivedNumbers | None] | None = getattr(self._index, "open_derived", None)
        stored = None if open_derived is None else open_derived(space)
        known = None if stored is None else stored.read(name)
        if known is not None:
            return known
        found = compute()
        if stored is not None and (self._catalog.clock(), self._catalog.edition) == before:
            stored.write(name, found)
        return found

    def _number(self, space: Space) -> int | None:
        """Return the id of a Space, which it keeps for the archive's life, None of one that the archive never had."""
        self._now()
        if space.fingerprint not in self._numbers:
            self._numbers |= {row.fingerprint: row.id for row in self._catalog.vectors.spaces()}
        return self._numbers.get(space.fingerprint)

    def _now(self) -> Instant:
        """Return the archive's present instant; of another life nothing stays cached."""
        now = self._catalog.instant()
        if now.life != self._life:
            self._life, self._numbers, self._samples, self._weights = now.life, {}, {}, {}
        return now
