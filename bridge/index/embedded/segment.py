"""An immutable block of vectors, with their episodes and a mask of those that are still alive."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Point
from bridge.index.embedded.checksums import Checksums
from bridge.index.stored_rows import StoredRows, expand_ranges
from catalog.vectors.checksums import term
from wshard.core.container.layout import checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.index.base import Ids, Vectors

_BATCH_ROWS: Final = 4096  # rows converted to float64 at a time
_MAX_CACHED: Final = 200_000  # episodes of all cached selections: some megabytes
_BASE_SIZE: Final = 32  # memory of an empty selection, in episodes


@dataclass(frozen=True, eq=False)
class RowSelection:
    """Living episodes in row order: positions, their rows starts:stops, and the total number of rows."""

    positions: Ids
    starts: Ids
    stops: Ids
    rows: int


@dataclass(eq=False)
class Segment:
    """vectors float32 [N, E]; episode i owns rows starts[i]:starts[i+1], at least one, and has the ledger's seqs[i].

    sums: the CRC32C of each episode's vectors, to be verified before they are used. alive[i] is False once the episode
    was replaced or deleted.
    """

    episodes: Ids
    seqs: Ids
    starts: Ids
    vectors: Vectors
    sums: Ids | None = None
    alive: NDArray[np.bool_] = field(init=False)
    checksums: Checksums = field(init=False)
    _order: Ids = field(init=False)
    _ids: Ids = field(init=False)
    _ends: Ids = field(init=False)
    _choices: dict[int, tuple[Ids | None, RowSelection]] = field(init=False, default_factory=dict)
    _cached: int = field(init=False, default=0)
    _products: tuple[bytes, Vectors] = field(init=False, default=(b"", np.zeros(0, np.float32)))

    def __post_init__(self) -> None:
        """Index the episodes, which come in the order of their rows."""
        self.alive = np.ones(len(self.episodes), np.bool_)
        self.checksums = Checksums(self.vectors, self.starts, self.sums, "vectors of the search copy")
        self._ends = self.starts[1:]
        self._order = np.argsort(self.episodes).astype(np.int64, copy=False)
        self._ids = self.episodes[self._order]

    @cached_property
    def lengths(self) -> tuple[NDArray[np.float32], float]:
        """Half the squared length of each row divided by the greatest length, and that length; reads every row once.

        Raises ChecksumError.
        """
        self.checksums.check()
        squares = np.empty(len(self.vectors))
        for start in range(0, len(self.vectors), _BATCH_ROWS):
            rows = self.vectors[start : start + _BATCH_ROWS].astype(np.float64)
            squares[start : start + _BATCH_ROWS] = np.einsum("ij,ij->i", rows, rows)
        longest = float(np.sqrt(squares.max()))
        return (squares / (2 * longest or 1.0)).astype(np.float32), longest

    @cached_property
    def terms(self) -> Ids:
        """The term of each episode in the checksum of the ledger's rows (catalog/vectors/checksums.py)."""
        sums = self.sums
        if sums is None:
            sums = np.array([checksum(self.vectors[a:b].data) for a, b in pairwise(self.starts.tolist())], np.int64)
        found = np.empty(len(sums), np.int64)
        for start in range(0, len(sums), _BATCH_ROWS):
            part = slice(start, start + _BATCH_ROWS)
            found[part] = term(sums[part], self.seqs[part], self.episodes[part])
        return found

    @staticmethod
    def from_points(points: Sequence[Point], dim: int) -> Segment:
        """Copy points of different episodes into one segment; dim is E, as there may be no points."""
        sizes = np.array([len(point.vectors) for point in points], np.int64)
        return Segment(
            np.array([point.episode for point in points], np.int64),
            np.array([point.seq for point in points], np.int64),
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            np.concatenate([np.zeros((0, dim), np.float32), *(point.vectors for point in points)]),
        )

    def find(self, episodes: Ids) -> Ids:
        """Return the positions of the episodes that this segment has and that are alive, in row order."""
        if not len(self.episodes):
            return self._order
        slots = self._ids.searchsorted(episodes).clip(max=len(self._ids) - 1)
        positions = self._order[slots]
        is_present = (self._ids[slots] == episodes) & self.alive[positions]
        return np.sort(positions[is_present])

    def kill(self, episodes: Ids) -> None:
        """Mark episodes as replaced or deleted."""
        self.alive[self.find(episodes)] = False
        self._choices.clear()
        self._cached = 0

    def count(self) -> int:
        """Return the number of vectors of living episodes."""
        return int(np.diff(self.starts)[self.alive].sum())

    def checksum(self) -> int:
        """Return the checksum of the ledger's rows of living episodes."""
        return int(self.terms[self.alive].sum())

    def points(self, alive: NDArray[np.bool_]) -> Iterator[Point]:
        """Yield the points of the episodes in this mask; raises ChecksumError."""
        return self.read(np.flatnonzero(alive))

    def read(self, positions: Ids) -> Iterator[Point]:
        """Yield the vectors of the episodes at these positions; raises ChecksumError."""
        for position in positions:
            self.checksums.check(np.array([position]))
            rows = self.vectors[self.starts[position] : self.starts[position + 1]]
            yield Point(int(self.episodes[position]), int(self.seqs[position]), rows)

    def read_some(self, episodes: Ids) -> StoredRows:
        """Return the vectors of the episodes, ascending, that are here and alive; raises ChecksumError."""
        positions = self.find(episodes)
        positions = positions[self.episodes[positions].argsort()]
        self.checksums.check(positions)
        starts, stops = self.starts[positions], self.starts[positions + 1]
        edges = np.concatenate([[0], (stops - starts).cumsum()])
        rows = starts if edges[-1] == len(positions) else expand_ranges(starts, stops)
        return StoredRows(self.episodes[positions], edges, self.vectors.take(rows, axis=0))

    def multiply(self, query: Vectors) -> Vectors:
        """Return the products [N] of all rows with a query, unverified and read-only; the last result is cached."""
        key, last = query.tobytes(), self._products  # which another thread may replace
        if last[0] != key:
            last = self._products = key, self.vectors @ query
        return last[1]

    def find_owners(self, rows: Ids) -> Ids:
        """Return the position of the episode that owns each row."""
        positions: Ids = self._ends.searchsorted(rows, side="right")
        return positions

    def select(self, episodes: Ids | None) -> RowSelection:
        """Return the living ones among these episodes, all for None; the last selections are cached."""
        cached = self._choices.get(id(episodes))
        if cached is None:
            positions = np.flatnonzero(self.alive) if episodes is None else self.find(episodes)
            starts, stops = self.starts[positions], self.starts[positions + 1]
            # The array is cached too, so that its id is not reused; its full size counts.
            size = _BASE_SIZE + len(positions if episodes is None else episodes)
            if self._cached + size > _MAX_CACHED:
                self._choices.clear()
                self._cached = 0
            self._cached += size
            cached = self._choices[id(episodes)] = (
                episodes,
                RowSelection(positions, starts, stops, int((stops - starts).sum())),
            )
        return cached[1]
