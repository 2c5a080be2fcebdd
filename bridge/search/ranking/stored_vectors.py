"""The stored vectors of episodes, by which ranking compares hits with queries and with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.graph.block_weights import NEIGHBOURS, SHARPNESS, BlockWeights, measure_weights
from bridge.graph.stored_graphs import GraphStore
from bridge.index.base import read_vectors
from catalog.filters.where import EVERYTHING, Compare
from embedders.registry import DEFAULT_EMBEDDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bridge.archive import Archive
    from bridge.graph.neighbour_graph import NeighbourGraph
    from bridge.index.base import Ids
    from bridge.index.stored_rows import StoredRows
    from bridge.search.ranking.query_vector import QueryVector
    from catalog.filters.where import Where
    from catalog.session import Instant
    from embedders.space import Space

_SAMPLE: Final = 64  # episodes; their mean similarity to a query has an error of 0.01 to 0.02
_GROUPED: Final = 512  # whole episodes; enough that a behaviour of one in fifty has several


class StoredVectors:
    """Reads vectors of episodes; of each Space a sample of episodes stays in memory until the archive has doubled."""

    def __init__(self, archive: Archive) -> None:
        self._catalog = archive.catalog
        self._index = archive.index
        self._graphs = GraphStore(archive)
        self._space_ids: dict[str, int] = {}
        self._samples: dict[str, tuple[int, StoredRows]] = {}
        self._weights: dict[str, tuple[int, BlockWeights]] = {}
        self._archive_life = ""

    def load(self, space: Space, episodes: Iterable[int]) -> StoredRows:
        """Return the vectors of those of the episodes that have any in the Space. Raises SpaceMismatchError.

        They come from the index if it has them available, else from the ledger.
        """
        return read_vectors(self._index, space, catalog=self._catalog, episodes=episodes)

    def background(self, query: QueryVector) -> float:
        """Return the mean cosine of the query with sampled episodes, each by its best vector."""
        sample = self._sample(query.space)
        if not len(sample.episodes):
            return 0.0
        vector, top = query.weighted
        if query.scanned is not None:
            return float(np.maximum.reduceat(query.cosines(sample.vectors), sample.starts[:-1]).mean())
        return float(np.mean(np.maximum.reduceat(sample.vectors @ vector, sample.starts[:-1]), dtype=np.float64)) / top

    def weights(self, space: Space, sizes: Sequence[int]) -> BlockWeights:
        """Return the weights of the descriptors of these sizes in a Space, valid until the archive has doubled.

        For a single channel and `blocks`, windows have weight 0: they describe the path only, which has no shape
        there.
        """
        if space.channels == 1 and space.embedder == DEFAULT_EMBEDDER:
            return BlockWeights(windows=0.0)
        if len(sizes) < 2 or not space.windows.whole:
            return BlockWeights()
        clock = self._now().clock
        sampled_at, weights = self._weights.get(space.fingerprint, (0, None))
        if weights is None or clock > 2 * sampled_at:
            name = f"block weights {list(sizes)}, {_GROUPED}, {NEIGHBOURS}, {SHARPNESS}"
            measured = self._derive(space, name, lambda: self._measure(space, sizes))
            weights = BlockWeights.of(measured, sizes)
            self._weights[space.fingerprint] = (clock, weights)
        return weights

    def graph(self, space: Space, weights: BlockWeights) -> NeighbourGraph | None:
        """Return the neighbour graph of a Space of whole episodes by which to rank, None if there is none."""
        return self._graphs.load(space, weights.values)

    def passing(self, episodes: Ids, where: Where) -> Ids:
        """Return those of the episodes, ascending ids, that pass a filter."""
        if where == EVERYTHING or not len(episodes):
            return episodes
        return np.array(self._catalog.query.ids(where & Compare("id", "in", tuple(episodes.tolist()))), np.int64)

    def _sample(self, space: Space) -> StoredRows:
        """Return the vectors of a sample of episodes."""
        clock = self._now().clock
        sampled_at, sample = self._samples.get(space.fingerprint, (0, None))
        if sample is None or not len(sample.episodes) or clock > 2 * sampled_at:
            chosen = self._derive(space, f"sample {_SAMPLE}", lambda: self._choose(space, _SAMPLE))
            sample = self.load(space, map(int, chosen))
            self._samples[space.fingerprint] = (clock, sample)
        return sample

    def _measure(self, space: Space, sizes: Sequence[int]) -> Sequence[float]:
        return measure_weights(self.load(space, self._choose(space, _GROUPED)).vectors, sizes)

    def _choose(self, space: Space, count: int) -> Sequence[int]:
        space_id = self._space_id(space)
        return [] if space_id is None else self._catalog.vectors.sample(space_id, count)

    def _derive(self, space: Space, name: str, compute: Callable[[], Sequence[float]]) -> Sequence[float]:
        """Return numbers derived from all vectors of a Space: as stored with the search copy, else computed.

        name: identifies them and how they are computed, so that other versions of this library compute their own.
        """
        before = self._catalog.instant().clock, self._catalog.edition
        stored = self._index.open_derived(space)
        cached = None if stored is None else stored.read(name)
        if cached is not None:
            return cached
        computed = compute()
        if stored is not None and (self._catalog.clock(), self._catalog.edition) == before:
            stored.write(name, computed)
        return computed

    def _space_id(self, space: Space) -> int | None:
        """Return the id of a Space, which is constant for the life of an archive; None if the archive never had it."""
        self._now()
        if space.fingerprint not in self._space_ids:
            self._space_ids |= {row.fingerprint: row.id for row in self._catalog.vectors.spaces()}
        return self._space_ids.get(space.fingerprint)

    def _now(self) -> Instant:
        """Return the archive's present instant; clear the caches if the archive has been replaced (another life)."""
        now = self._catalog.instant()
        if now.history != self._archive_life:
            self._archive_life, self._space_ids, self._samples, self._weights = now.history, {}, {}, {}
        return now
