"""One immutable run of vectors, and the exact scan over it.

Knows: vectors of many episodes, each episode's rows side by side; dead episodes; scoring ranges without copying.
Does not know: where the vectors lie (memory or file), SQL, filters (episode ids come in ready).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from bridge.index.base import Match, Point

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bridge.index.base import Vectors

Ids = NDArray[np.int64]
Scores = NDArray[np.float64]

_SCAN_FROM_SHARE: Final = 0.25  # of the rows selected: from here on one sequential pass beats many small ones
_GATHER_BELOW: Final = 16  # rows per range: shorter ranges cost more as calls than as a copy
_MARGIN: Final = 1e-4  # float32 scores this close to the k-th are compared again in float64
_WIDENED_AT_ONCE: Final = 4096  # rows: a great many equal vectors must not need a great deal of memory


@dataclass(eq=False)
class Segment:
    """vectors float32 [N, E]; episode i owns rows starts[i]:starts[i+1] and has the ledger's number seqs[i].

    alive[i] is False once the episode was replaced or deleted.
    """

    episodes: Ids
    seqs: Ids
    starts: Ids
    vectors: Vectors
    alive: NDArray[np.bool_] = field(init=False)
    _order: Ids = field(init=False)

    def __post_init__(self) -> None:
        """Index the episodes, which come in the order of their rows."""
        self.alive = np.ones(len(self.episodes), np.bool_)
        self._order = np.argsort(self.episodes, kind="stable").astype(np.int64)

    @staticmethod
    def of(points: Sequence[Point], dim: int) -> Segment:
        """Copy points of different episodes into one segment; dim is E, which no point might tell."""
        sizes = np.array([len(point.vectors) for point in points], np.int64)
        return Segment(
            np.array([point.episode for point in points], np.int64),
            np.array([point.seq for point in points], np.int64),
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            np.concatenate([np.zeros((0, dim), np.float32), *(point.vectors for point in points)]),
        )

    def find(self, episodes: Ids) -> Ids:
        """Return the positions of those of the episodes that are here and alive, in row order."""
        if not len(self.episodes):
            return self._order
        slots = np.searchsorted(self.episodes, episodes, sorter=self._order).clip(max=len(self.episodes) - 1)
        positions = self._order[slots]
        here = (self.episodes[positions] == episodes) & self.alive[positions]
        return np.sort(positions[here])

    def kill(self, episodes: Ids) -> None:
        """Mark episodes as replaced or deleted."""
        self.alive[self.find(episodes)] = False

    def count(self) -> int:
        """Return the number of vectors of living episodes."""
        return int(np.diff(self.starts)[self.alive].sum())

    def points(self) -> Iterator[Point]:
        """Yield every living episode's vectors."""
        for position in np.flatnonzero(self.alive):
            rows = self.vectors[self.starts[position] : self.starts[position + 1]]
            yield Point(int(self.episodes[position]), int(self.seqs[position]), rows)

    def selected(self, episodes: Ids | None) -> Ids:
        """Return the positions of the living episodes among those given, all of them for None."""
        return np.flatnonzero(self.alive).astype(np.int64) if episodes is None else self.find(episodes)

    def scores(self, query: Vectors, positions: Ids) -> tuple[Ids, Vectors]:
        """Score the episodes at these positions; returns the row numbers scored and their float32 dot products."""
        sizes = self.starts[positions + 1] - self.starts[positions]
        total = int(sizes.sum())
        if total == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        rows = np.repeat(self.starts[positions] - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
        rows = rows + np.arange(total)
        if total >= _SCAN_FROM_SHARE * len(self.vectors):
            return rows, (self.vectors @ query)[rows]
        ranges = _runs(self.starts[positions], self.starts[positions + 1])
        if total < _GATHER_BELOW * len(ranges):
            return rows, self.vectors[rows] @ query
        return rows, np.concatenate([self.vectors[start:stop] @ query for start, stop in ranges])


def _runs(starts: Ids, stops: Ids) -> list[tuple[int, int]]:
    """Join neighbouring ranges."""
    breaks = np.flatnonzero(starts[1:] != stops[:-1])
    first = starts[np.concatenate(([0], breaks + 1))]
    last = stops[np.concatenate((breaks, [len(stops) - 1]))]
    return list(zip(first.tolist(), last.tolist(), strict=True))


@cache
def blas_threads() -> ThreadpoolController:
    """Return the one that limits BLAS threads; finding the libraries takes milliseconds, once per process."""
    return ThreadpoolController()


def best(
    segments: Sequence[Segment], query: Vectors, wanted: Ids | None, *, top_k: int, distinct: bool
) -> tuple[list[Match], int]:
    """Return the top_k matches over all segments, and how many vectors were scored.

    Candidates are found in float32 and ranked in float64, row by row, so that the order does not depend on where a
    vector lies. One BLAS thread: a second one gains little here and loses a lot under load.
    """
    with blas_threads().limit(limits=1, user_api="blas"):
        found = [_candidates(segment, query, wanted, top_k, distinct) for segment in segments]
    exact = [_exact(segment, rows, query) for segment, (rows, _) in zip(segments, found, strict=True)]
    cosines, episodes, windows = (np.concatenate(column) for column in zip(*exact, strict=True))
    order = np.lexsort((windows, episodes, -cosines))
    if distinct:
        _, first = np.unique(episodes[order], return_index=True)
        order = order[np.sort(first)]
    order = order[:top_k]
    columns = (episodes[order].tolist(), windows[order].tolist(), cosines[order].tolist())
    return [Match(*values) for values in zip(*columns, strict=True)], sum(scored for _, scored in found)


def _candidates(
    segment: Segment,
    query: Vectors,
    wanted: Ids | None,
    top_k: int,
    distinct: bool,  # noqa: FBT001  (internal)
) -> tuple[Ids, int]:
    """Return the rows that can be among the top_k of this segment, and how many rows were scored."""
    positions = segment.selected(wanted)
    rows, scores = segment.scores(query, positions)
    sizes = segment.starts[positions + 1] - segment.starts[positions]
    several = distinct and len(rows) > len(positions)
    contenders = np.maximum.reduceat(scores, np.cumsum(sizes) - sizes) if several else scores
    if len(contenders) <= top_k:
        threshold = -np.inf
    else:
        threshold = np.partition(contenders, len(contenders) - top_k)[len(contenders) - top_k] - _MARGIN
    return rows[scores >= threshold], len(rows)


def _exact(segment: Segment, rows: Ids, query: Vectors) -> tuple[Scores, Ids, Ids]:
    """Return cosines in float64, episodes and windows of these rows."""
    wide = query.astype(np.float64)
    parts = [rows[start : start + _WIDENED_AT_ONCE] for start in range(0, len(rows), _WIDENED_AT_ONCE)]
    cosines = [_cosines(segment.vectors[part].astype(np.float64), wide) for part in parts]
    positions = np.searchsorted(segment.starts, rows, side="right") - 1
    windows = rows - segment.starts[positions]
    return np.concatenate([np.zeros(0), *cosines]), segment.episodes[positions], windows


def _cosines(vectors: Scores, query: Scores) -> Scores:
    norms = np.sqrt((vectors * vectors).sum(axis=1) * (query * query).sum())
    cosines: Scores = (vectors * query).sum(axis=1) / norms
    return np.clip(cosines, -1.0, 1.0)
