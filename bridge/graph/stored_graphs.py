"""The graphs of an archive's Spaces: in memory, as stored in the Space's folder, else built.

A graph follows the archive: new episodes join by their own neighbours, until a tenth is new and it is built again. What
takes longer than a search may wait for is made in the background, and searches use the graph of before meanwhile.
Episodes that lack lanes of the Space, but have others, are in it by predicted vectors.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash

from bridge.graph.completion import LEAST_SHOWN, MOST_SHOWN, Completion, load_completed
from bridge.graph.neighbour_graph import LEAST_EPISODES, NeighbourGraph, build_graph, join_graph
from bridge.index.base import read_vectors
from bridge.index.stored_rows import sort_distinct
from bridge.support.background_job import BackgroundJob
from bridge.support.blas_threads import one_blas_thread
from bridge.support.scratch import map_rows
from catalog.vectors.records import LedgerRevision
from embedders.base import unit_rows
from embedders.space import Space

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.index.derived_numbers import DerivedNumbers
    from bridge.index.stored_rows import StoredRows
    from catalog.session import Instant
    from catalog.vectors.records import SpaceRow

    Ids = NDArray[np.int64]
    Vectors = NDArray[np.float32]
    Weights = NDArray[np.float64] | None

_VERSION: Final = 5
_JOINED: Final = 0.1  # share of episodes that may join before the graph is built again
_MOST_AT_ONCE: Final = 100_000_000  # pairs of episodes that are compared while a search waits: two seconds
_ROWS: Final = 1024  # vectors read at a time


@dataclass(frozen=True, eq=False)
class _MarkedGraph:
    """A graph, and what tells the vectors [N] apart that it was built from; built: episodes that did not join later.

    name: how vectors were weighed, and the Spaces of fewer lanes. edition, revision: the state of the ledger's vectors.
    """

    graph: NeighbourGraph
    marks: NDArray[np.uint64]
    built: int
    name: str
    edition: str
    revision: LedgerRevision

    @staticmethod
    def read(derived: DerivedNumbers | None, name: str, edition: str, sources: Sequence[Space]) -> _MarkedGraph | None:
        """Return what is stored under this name, of present or earlier vectors; None if nothing is."""
        stored = None if derived is None else derived.read_arrays(name, mapped=True)
        if stored is None:
            return None
        episodes, neighbours, shares, marks, groups, numbers, *rest = stored
        parts = [Completion(source, *rest[4 * place : 4 * place + 4]) for place, source in enumerate(sources)]
        known = tuple(one for one in parts if one.maps.size)
        graph = NeighbourGraph(episodes, neighbours, shares, float(groups[0]), known)
        built, *revision = numbers.tolist()
        return _MarkedGraph(graph, marks, built, name, edition, LedgerRevision(*revision))

    def write(self, derived: DerivedNumbers | None, sources: Sequence[Space]) -> None:
        """Store it, with what predicts vectors from those of each source, nothing where too little is predicted."""
        if derived is not None:
            graph, numbers = self.graph, np.array([self.built, *self.revision], np.int64)
            arrays: list[NDArray[Any]] = [graph.episodes, graph.neighbours, graph.shares, self.marks]
            known = {one.source.fingerprint: one.arrays for one in graph.completions}
            rest = (array for one in sources for array in known.get(one.fingerprint, [np.zeros(0, np.float32)] * 4))
            derived.write_arrays(self.name, [*arrays, np.array([graph.groups]), numbers, *rest])


class GraphStore:
    """Provides the neighbour graph of each Space of an archive, by vectors weighted as a search weighs them."""

    def __init__(self, archive: Archive) -> None:
        self._catalog, self._index = archive.catalog, archive.index
        self._graphs: dict[str, _MarkedGraph] = {}
        self._checked: dict[str, tuple[Instant, str]] = {}
        self._job = BackgroundJob()

    def load(self, space: Space, weights: Weights = None, *, wait: bool = False) -> NeighbourGraph | None:
        """Return the graph of a Space of whole episodes; None until it is built.

        weights: of the values of a vector [E]. wait: until it is made, however long that takes.
        """
        weighed = f"neighbours {_VERSION} {'' if weights is None else xxhash.xxh3_64_hexdigest(weights.tobytes())}"
        now = self._catalog.instant(), weighed
        if self._checked.get(space.fingerprint) != now and not self._job.busy:
            with suppress(OSError):  # no room for temporary files: the search goes on without
                self._follow(space, weights, weighed, wait=wait)
            self._checked[space.fingerprint] = now
        present = self._graphs.get(space.fingerprint)
        if present is None or not f"{present.name} ".startswith(f"{weighed} "):  # weighed otherwise
            return None
        return present.graph

    def _follow(self, space: Space, weights: Weights, weighed: str, *, wait: bool) -> None:
        """Keep the graph of the present vectors: that in memory, the stored one, or one that is made."""
        rows = self._catalog.vectors.spaces("active")
        ids = {row.fingerprint: row.id for row in rows}
        if space.fingerprint not in ids:
            self._graphs.pop(space.fingerprint, None)
            return
        sources = _find_narrower(rows, space)
        name = " ".join([weighed, *(one.fingerprint for one in sources)])
        clock, used = self._catalog.instant().clock, [ids[one.fingerprint] for one in (space, *sources)]
        revision = _join_revisions([self._catalog.vectors.revision(id_) for id_ in used])
        state, derived = (name, self._catalog.edition, revision), self._index.open_derived(space)
        before = self._find_before(space, derived, state, sources)
        if before is not None and before.revision == revision:
            return
        embedded = [np.array(self._catalog.vectors.embedded(id_), np.int64) for id_ in used]
        if len(embedded[0]) < LEAST_EPISODES:
            self._graphs.pop(space.fingerprint, None)
            return
        completions = before.graph.completions if before else self._fit(space, sources, embedded)
        episodes, marks, vectors = self._read(space, embedded, weights, completions)
        known = _find_known(before, episodes, marks)
        if before is not None and known is None:
            completions = self._fit(space, sources, embedded)
            episodes, marks, vectors = self._read(space, embedded, weights, completions)
        if len(episodes) < LEAST_EPISODES:  # others were replaced or deleted meanwhile
            self._graphs.pop(space.fingerprint, None)
            return
        if self._catalog.clock() != clock:  # what is stored may be of other vectors than these
            derived = None

        def make() -> None:
            with one_blas_thread():
                if before is None or known is None:
                    graph, built = replace(build_graph(episodes, vectors), completions=completions), len(vectors)
                else:
                    graph, built = join_graph(before.graph, episodes, vectors, known), before.built
            made = _MarkedGraph(graph, marks, built, *state)
            made.write(derived, sources)
            self._graphs[space.fingerprint] = made

        new = len(vectors) if known is None else np.count_nonzero(~known)
        if wait or new * len(vectors) <= _MOST_AT_ONCE:
            make()
        else:
            self._job.start(make)

    def _load(self, space: Space, episodes: Ids) -> StoredRows:
        return read_vectors(self._index, space, catalog=self._catalog, episodes=episodes)

    def _fit(self, space: Space, sources: Sequence[Space], embedded: Sequence[Ids]) -> tuple[Completion, ...]:
        """Return what predicts vectors from those of the sources that have other episodes; embedded: of all Spaces."""
        fitted = []
        for source, episodes in zip(sources, embedded[1:], strict=True):
            both = np.intersect1d(embedded[0], episodes)
            if len(both) < LEAST_SHOWN or len(both) == len(episodes):
                continue
            chosen = both[:: math.ceil(len(both) / MOST_SHOWN)]
            rows = [one.vectors.take(one.starts[:-1], 0) for one in (self._load(of, chosen) for of in (source, space))]
            if len(rows[0]) == len(rows[1]) and (completion := Completion.fit(source, *rows)):
                fitted.append(completion)
        return tuple(fitted)

    def _read(
        self, space: Space, embedded: Sequence[Ids], weights: Weights, completions: Sequence[Completion]
    ) -> tuple[Ids, NDArray[np.uint64], Vectors]:
        """Return the episodes that have vectors or predicted ones, their marks, and their weighted vectors, mapped."""
        ids, marks = [], []
        episodes = sort_distinct(np.concatenate(embedded)) if completions else embedded[0]

        def read() -> Iterator[Vectors]:
            for start in range(0, len(episodes), _ROWS):
                loaded = load_completed(self._load, space, completions, episodes[start : start + _ROWS])
                rows = loaded.vectors.take(loaded.starts[:-1], axis=0)
                ids.append(loaded.episodes)
                marks.append(_mark(rows))
                yield rows if weights is None else unit_rows(rows.astype(np.float64) * np.sqrt(weights))

        vectors = map_rows(read(), space.dim, np.float32)
        return np.concatenate(ids), np.concatenate(marks), vectors

    def _find_before(
        self,
        space: Space,
        derived: DerivedNumbers | None,
        state: tuple[str, str, LedgerRevision],
        sources: Sequence[Space],
    ) -> _MarkedGraph | None:
        """Return the graph of this name and edition, in memory or stored, and keep it; of earlier vectors, if it is."""
        before = self._graphs.pop(space.fingerprint, None)
        if before is not None and (before.name, before.edition) != state[:2]:
            before = None
        if before is None or before.revision != state[2]:
            before = _MarkedGraph.read(derived, *state[:2], sources) or before
        if before is not None:
            self._graphs[space.fingerprint] = before
        return before


def _find_narrower(rows: Sequence[SpaceRow], space: Space) -> list[Space]:
    """Return the Spaces of whole episodes of fewer lanes or channels, embedded alike; those of the most first."""
    spaces = (Space.from_json(row.definition) for row in rows)
    alike = (space.embedder, space.version, space.parameters, space.windows, space.metric)
    narrower = [
        one
        for one in spaces
        if one.is_part_of(space) and (one.embedder, one.version, one.parameters, one.windows, one.metric) == alike
    ]
    return sorted(narrower, key=lambda one: (-one.channels, one.fingerprint))


def _join_revisions(revisions: Sequence[LedgerRevision]) -> LedgerRevision:
    """Return what differs after every change of any of several Spaces."""
    rows, last, episodes, checksums = zip(*revisions, strict=True)
    return LedgerRevision(sum(rows), sum(last), sum(episodes), reduce(xor, checksums))


def _find_known(before: _MarkedGraph | None, episodes: Ids, marks: NDArray[np.uint64]) -> NDArray[np.bool_] | None:
    """Return a mask of the episodes that are in a graph as they are; None if these are too few for others to join."""
    if before is None:
        return None
    places, known = before.graph.find(episodes)
    known &= before.marks[places] == marks
    return known if np.count_nonzero(known) >= (1 - _JOINED) * max(before.built, len(known)) else None


def _mark(vectors: Vectors) -> NDArray[np.uint64]:
    """Return a number [N] for each vector [N, E] that differs where vectors do."""
    words = np.ascontiguousarray(vectors).view(np.uint32)
    odd = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64)  # so that the order of values counts
    marks: NDArray[np.uint64] = (words * odd).sum(axis=1, dtype=np.uint64)
    return marks
