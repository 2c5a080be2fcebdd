"""The stored vectors of episodes, by which ranking compares hits with queries and with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.graph.block_weights import NEIGHBOURS, SHARPNESS, BlockWeights, measure_weights
from bridge.graph.stored_graphs import GraphStore
from bridge.index.base import read_vectors
from bridge.index.stored_rows import StoredRows
from catalog.filters.where import EVERYTHING, Compare
from embedders.registry import DEFAULT_EMBEDDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bridge.archive import Archive
    from bridge.graph.neighbour_graph import NeighbourGraph
    from bridge.index.base import Ids
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
        self._derived: dict[tuple[str, str], tuple[int, list[float]]] = {}  # and the clock at which they were read
        self._archive_life = ""

    def load(self, space: Space, episodes: Iterable[int] | Ids) -> StoredRows:
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

    def weights(self, space: Space, sizes: Sequence[int], *, anew: bool = False) -> BlockWeights:
        """Return the weights of the descriptors of these sizes in a Space, valid until the archive has doubled.

        For a single channel and `blocks`, windows have weight 0: they describe the path only, which has no shape
        there. anew: measure them in any case.
        """
        if space.channels == 1 and space.embedder == DEFAULT_EMBEDDER:
            return BlockWeights(windows=0.0)
        if len(sizes) < 2 or not space.windows.whole:
            return BlockWeights()
        name = f"block weights {list(sizes)}, {_GROUPED}, {NEIGHBOURS}, {SHARPNESS}"
        _, measured = self.derive(space, name, lambda: self._measure(space, sizes), anew=anew)
        return BlockWeights.of(measured, sizes)

    def graph(self, space: Space, weights: BlockWeights, *, wait: bool = False) -> NeighbourGraph | None:
        """Return the neighbour graph of a Space of whole episodes, None if there is none (yet)."""
        return self._graphs.load(space, weights.values, wait=wait)

    def passing(self, episodes: Ids, where: Where) -> Ids:
        """Return those of the episodes, ascending ids, that pass a filter."""
        if where == EVERYTHING or not len(episodes):
            return episodes
        return np.array(self._catalog.query.ids(where & Compare("id", "in", tuple(episodes.tolist()))), np.int64)

    def _sample(self, space: Space) -> StoredRows:
        """Return the vectors of a sample of episodes."""
        clock, name = self._now().clock, f"sample {_SAMPLE}"
        sampled_at, sample = self._samples.get(space.fingerprint) or (0, StoredRows.of({}, space.dim))
        for anew in (False, True):  # anew: those that were chosen are gone
            if not len(sample.episodes) or clock > 2 * sampled_at:
                sampled_at, chosen = self.derive(space, name, lambda: self.choose(space, _SAMPLE), anew=anew)
                sample = self.load(space, map(int, chosen))
                self._samples[space.fingerprint] = (sampled_at, sample)
        return sample

    def _measure(self, space: Space, sizes: Sequence[int]) -> Sequence[float]:
        return measure_weights(self.load(space, self.choose(space, _GROUPED)).vectors, sizes)

    def choose(self, space: Space, count: int) -> Sequence[int]:
        """Return the ids of that many episodes with vectors in a Space, or all."""
        space_id = self._space_id(space)
        return [] if space_id is None else self._catalog.vectors.sample(space_id, count)

    def derive(
        self, space: Space, name: str, compute: Callable[[], Sequence[float]], *, anew: bool = False
    ) -> tuple[int, Sequence[float]]:
        """Return numbers derived from vectors of a Space, and the clock as of then: stored, in memory, or computed.

        name: identifies them and how they are computed, so that other versions of this library compute their own.
        They are valid until the archive has doubled; none are not stored.
        """
        clock, key = self._now().clock, (space.fingerprint, name)
        read_at, found = self._derived.get(key, (-1, []))
        stored = self._index.open_derived(space) if read_at != clock or anew else None
        if read_at != clock:  # another process may have stored new ones; where there were none, there may be some now
            found = (stored and stored.read(name)) or (found if len(found) > 1 else [])
            self._derived[key] = clock, found
        if found and found[0] <= clock <= 2 * found[0] and not anew:
            return int(found[0]), found[1:]
        before = clock, self._catalog.edition
        computed = compute()
        if (self._catalog.clock(), self._catalog.edition) == before:
            self._derived[key] = clock, [clock, *computed]
            if computed and stored is not None:
                stored.write(name, [clock, *computed])
        return clock, computed

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
            self._archive_life, self._space_ids, self._samples, self._derived = now.history, {}, {}, {}
        return now
