"""The tail of a Space: what its ledger has after a disk copy, with its vectors or, for an ingest, without."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from typing import TYPE_CHECKING

import numpy as np

from bridge.index.base import Point
from bridge.index.embedded.inverted_lists import SearchCopy
from bridge.index.embedded.segment import Segment
from bridge.index.stored_rows import decode_vectors
from bridge.support.id_set import IdSet
from catalog.vectors.checksums import term
from wshard.core.container.layout import checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bridge.index.base import Ids
    from catalog.vectors.records import LedgerEntry


class Tail(ABC):
    """Living episodes of the ledger after a copy, of vectors [n, dim]."""

    def __init__(self, dim: int) -> None:
        self._dim = dim

    @abstractmethod
    def take(self, entries: Sequence[LedgerEntry]) -> None:
        """Absorb later entries: new vectors, replaced ones, or tombstones; VectorIndexError for a wrong size."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of vectors."""

    @abstractmethod
    def checksum(self) -> int:
        """Return the checksum of the ledger's rows."""

    @abstractmethod
    def points(self, ledger: Callable[[], Iterator[LedgerEntry]]) -> Iterable[Point]:
        """Return the present points, whatever is added later; ledger: reads the entries after the copy again."""

    @abstractmethod
    def join(self) -> SearchCopy:
        """Return the tail as one segment, made when needed."""

    def _point_of(self, entry: LedgerEntry) -> Point:
        vectors = decode_vectors(entry.episode_id, entry.vectors or b"", (entry.count, self._dim))
        return Point(entry.episode_id, entry.seq, vectors)


class ReadTail(Tail):
    """A tail that is searched: its vectors are in memory."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self._points: dict[int, Point] = {}
        self._terms: dict[int, int] = {}  # of the episodes, see catalog/vectors/checksums.py
        self._joined: SearchCopy | None = None

    def take(self, entries: Sequence[LedgerEntry]) -> None:
        """See Tail."""
        for entry in entries:
            self._points.pop(entry.episode_id, None)
            self._terms.pop(entry.episode_id, None)
            if entry.vectors:
                self._points[entry.episode_id] = self._point_of(entry)
                self._terms[entry.episode_id] = term(checksum(entry.vectors), entry.seq, entry.episode_id)
            self._joined = None

    def count(self) -> int:
        """See Tail."""
        return sum(len(point.vectors) for point in self._points.values())

    def checksum(self) -> int:
        """See Tail."""
        return sum(self._terms.values())

    def points(self, ledger: Callable[[], Iterator[LedgerEntry]]) -> Iterable[Point]:  # noqa: ARG002  (all in memory)
        """See Tail."""
        return [*self._points.values()]

    def join(self) -> SearchCopy:
        """See Tail."""
        if self._joined is None:
            self._joined = SearchCopy(Segment.from_points([*self._points.values()], self._dim))
        return self._joined


class CountedTail(Tail):
    """A tail that is only written to a copy: four numbers of each entry, its vectors stay in the ledger."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self._numbers = array("q")  # episode, ledger number, number of vectors, CRC32C of these

    def take(self, entries: Sequence[LedgerEntry]) -> None:
        """See Tail."""
        for entry in entries:
            count, sum_ = (len(self._point_of(entry).vectors), checksum(entry.vectors)) if entry.vectors else (0, 0)
            self._numbers.extend((entry.episode_id, entry.seq, count, sum_))

    def _living(self) -> Ids:
        """Return the columns [4, n] of the last entry of each episode that has vectors."""
        numbers = np.array(self._numbers).reshape(-1, 4)
        last = len(numbers) - 1 - np.unique(numbers[::-1, 0], return_index=True)[1]
        living: Ids = numbers[last[numbers[last, 2] > 0]].T
        return living

    def count(self) -> int:
        """See Tail."""
        return int(self._living()[2].sum())

    def checksum(self) -> int:
        """See Tail."""
        episodes, seqs, _, sums = self._living()
        return int(term(sums, seqs, episodes).sum())

    def points(self, ledger: Callable[[], Iterator[LedgerEntry]]) -> Iterable[Point]:
        """See Tail; points that are replaced before they are read are left out."""
        living = IdSet(self._living()[1].tolist())
        return (self._point_of(entry) for entry in ledger() if entry.seq in living)

    def join(self) -> SearchCopy:
        """Raise TypeError: there is nothing to search."""
        raise TypeError("expected the vectors of a tail to search, found their numbers only")
