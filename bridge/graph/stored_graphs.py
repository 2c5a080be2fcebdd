"""The graphs of an archive's Spaces: in memory, as stored with the search copy, else built.

A graph follows the archive: new episodes join by their own neighbours, until a tenth is new and it is built again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from bridge.graph.neighbour_graph import LEAST_EPISODES, NeighbourGraph, build_graph, join_graph
from bridge.index.base import read_vectors
from bridge.support.background_job import BackgroundJob
from bridge.support.blas_threads import one_blas_thread
from embedders.base import unit_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.index.derived_numbers import DerivedNumbers
    from catalog.session import Instant
    from embedders.space import Space

    Ids = NDArray[np.int64]

LEAST_GROUPS: Final = 0.37
"""Share of mutual neighbours, beyond chance, below which an archive has no groups that a graph could follow."""

_VERSION: Final = 1
_JOINED: Final = 0.1  # share of episodes that may join before the graph is built again
_MOST_AT_ONCE: Final = 20_000  # episodes whose graph is built while a search waits


@dataclass(frozen=True, eq=False)
class _MarkedGraph:
    """A graph, and what tells the vectors [N] apart that it was built from; built: episodes that did not join later."""

    graph: NeighbourGraph
    marks: NDArray[np.uint64]
    built: int

    @staticmethod
    def read(derived: DerivedNumbers | None, name: str) -> _MarkedGraph | None:
        """Return what is stored under this name for the present vectors, None if nothing is."""
        stored = None if derived is None else derived.read_arrays(name)
        if stored is None:
            return None
        episodes, neighbours, shares, groups, marks, built = stored
        return _MarkedGraph(NeighbourGraph(episodes, neighbours, shares, float(groups[0])), marks, int(built[0]))

    def write(self, derived: DerivedNumbers | None, name: str) -> None:
        """Store it."""
        if derived is not None:
            graph, numbers = self.graph, [np.array([self.graph.groups]), self.marks, np.array([self.built])]
            derived.write_arrays(name, [graph.episodes, graph.neighbours, graph.shares, *numbers])


class GraphStore:
    """Provides the neighbour graph of each Space of an archive, by vectors weighted as a search weighs them."""

    def __init__(self, archive: Archive) -> None:
        self._catalog, self._index = archive.catalog, archive.index
        self._graphs: dict[str, tuple[tuple[object, ...], _MarkedGraph]] = {}
        self._checked: dict[str, tuple[Instant, str]] = {}
        self._job = BackgroundJob()

    def load(self, space: Space, weights: NDArray[np.float64] | None = None) -> NeighbourGraph | None:
        """Return the graph of a Space of whole episodes; None until it is built, and for episodes not in groups.

        weights: of the values of a vector [E].
        """
        name = f"neighbours {_VERSION} {'' if weights is None else xxhash.xxh3_64_hexdigest(weights.tobytes())}"
        now = self._catalog.instant(), name
        if self._checked.get(space.fingerprint) != now and not self._job.busy:
            self._follow(space, weights, name)
            self._checked[space.fingerprint] = now
        present = self._graphs.get(space.fingerprint)
        if present is None or present[0][0] != name:
            return None
        graph = present[1].graph
        return graph if graph.groups >= LEAST_GROUPS else None

    def _follow(self, space: Space, weights: NDArray[np.float64] | None, name: str) -> None:
        """Keep the graph of the present vectors: that in memory, the stored one, or one that is made."""
        fingerprint = space.fingerprint
        spaces = {row.fingerprint: row.id for row in self._catalog.vectors.spaces()}
        before = self._graphs.pop(fingerprint, None)
        if fingerprint not in spaces:
            return
        state = (name, self._catalog.edition, *self._catalog.vectors.revision(spaces[fingerprint]))
        if before is not None and before[0] == state:
            self._graphs[fingerprint] = before
            return
        ids, clock = self._catalog.vectors.embedded(spaces[fingerprint]), self._catalog.instant().clock
        if len(ids) < LEAST_EPISODES:
            return
        derived = self._index.open_derived(space)
        present = _MarkedGraph.read(derived, name)
        if present is not None:
            self._graphs[fingerprint] = state, present
            return
        loaded = read_vectors(self._index, space, catalog=self._catalog, episodes=ids)
        rows = loaded.vectors.take(loaded.starts[:-1], axis=0)
        if self._catalog.clock() != clock:  # what is stored may be of other vectors than these
            derived = None
        joined = before[1] if before is not None and before[0][0] == name else None

        def make() -> None:
            with one_blas_thread():
                made = _make(joined, loaded.episodes, rows, weights)
            made.write(derived, name)
            self._graphs[fingerprint] = state, made

        if len(ids) <= _MOST_AT_ONCE or joined is not None:
            make()
        else:
            self._job.start(make)


def _make(
    before: _MarkedGraph | None, episodes: Ids, rows: NDArray[np.float32], weights: NDArray[np.float64] | None
) -> _MarkedGraph:
    """Return the graph of episodes with these vectors [N, E]: joined to the one before, if nearly all are in it."""
    vectors = rows if weights is None else unit_rows(rows.astype(np.float64) * np.sqrt(weights))
    marks = _mark(rows)
    if before is not None:
        places, known = before.graph.find(episodes)
        known &= before.marks[places] == marks
        if np.count_nonzero(known) >= (1 - _JOINED) * max(before.built, len(known)):
            return _MarkedGraph(join_graph(before.graph, episodes, vectors, known), marks, before.built)
    return _MarkedGraph(build_graph(episodes, vectors), marks, len(marks))


def _mark(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return a number [N] for each vector [N, E] that differs where vectors do."""
    words = np.ascontiguousarray(vectors).view(np.uint32)
    odd = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64)  # so that the order of values counts
    marks: NDArray[np.uint64] = (words * odd).sum(axis=1, dtype=np.uint64)
    return marks
