"""What one process has in memory of a Space: the disk copy, and the ledger entries that came after it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Point, decode_vectors
from bridge.index.derived_numbers import LEDGER_FILE, DerivedNumbers
from bridge.index.embedded.inverted_lists import SearchCopy
from bridge.index.embedded.segment import Segment
from bridge.index.stored_rows import StoredRows
from catalog.vectors.checksums import term
from catalog.vectors.records import LedgerState
from wshard.container.layout import checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bridge.index.base import Ids
    from bridge.index.embedded.kmeans import Clustering
    from catalog.catalog import Catalog
    from catalog.vectors.records import LedgerEntry
    from embedders.space import Space

_TOTALS: Final = "totals"
_TAKEN_AT_ONCE: Final = 256  # ledger entries
_TAIL_NUMBERS: Final = 1 << 18  # numbers of vectors: each search compares all, and the first one reads them one by one
_GROWING_NUMBERS: Final = 2 << 20  # the same while an ingest goes on: these are searched in half a millisecond
_TAIL_SHARE: Final = 0.05  # of the vectors of a copy that may come after it, where that is more
_PATIENCE: Final = 8  # times as many may come while an ingest goes on, but no more than half of those of the copy
_LISTS_NUMBERS: Final = 3 << 20  # from here on inverted lists are quicker than to compare everything
_LISTS_LATER: Final = 8  # times as many before there are lists while an ingest goes on, for they will soon be replaced


@dataclass(frozen=True)
class CopyRule:
    """When a Space gets a new disk copy, and when that has inverted lists: large vectors count by their numbers."""

    tail_rows: int
    lists_rows: int

    def is_due(self, tail: int, base: int, dim: int, *, ingesting: bool = False) -> bool:
        """Say whether a new copy is worth it with so many vectors of this size after a copy of so many."""
        before, now = (self.has_lists(count, dim, ingesting=ingesting) for count in (base, base + tail))
        if base and now and not before:
            return True
        least = min(self.tail_rows, (_GROWING_NUMBERS if ingesting else _TAIL_NUMBERS) // dim)
        return tail > max(least, _TAIL_SHARE * base, min(base // 2, _PATIENCE * least) if ingesting else 0)

    def has_lists(self, vectors: int, dim: int, *, ingesting: bool = False) -> bool:
        """Say whether a copy of so many vectors of this size has inverted lists."""
        return vectors >= min(self.lists_rows, _LISTS_NUMBERS // dim) * (_LISTS_LATER if ingesting else 1)


class UncopiedVectors:
    """How many vectors each Space has after its disk copy and in it, as far as that is known without looking.

    waiting: the Spaces that must be looked at: a new copy is due, or the lists of the one that they have.
    """

    def __init__(self, rule: CopyRule) -> None:
        self._rule = rule
        self._counts: dict[str, tuple[int, int]] = {}
        self._known: set[str] = set()
        self.waiting: dict[str, Space] = {}

    def is_due(self, space: Space, points: Sequence[Point]) -> bool:
        """Count more vectors, and say whether to look if a new copy is worth it; without points an ingest has ended."""
        tail, base = self._counts.get(space.fingerprint, (0, 0))
        tail += sum(len(point.vectors) for point in points)
        self._counts[space.fingerprint] = tail, base
        if not points and (space.fingerprint in self.waiting or space.fingerprint not in self._known):
            return True
        return self._rule.is_due(tail, base, space.dim, ingesting=bool(points))

    def note(self, space: Space, tail: int, base: int) -> None:
        """Take in what was found by looking."""
        self._counts[space.fingerprint] = tail, base
        self._known.add(space.fingerprint)
        self.waiting.pop(space.fingerprint, None)

    def forget(self) -> None:
        """Have every Space looked at again."""
        self._counts.clear()
        self._known.clear()


@dataclass(eq=False)
class IndexSnapshot:
    """One Space as this process knows it: the disk copy and, after it, the tail.

    seq: the last ledger entry taken in; clock: the catalog's when all of this was last known to equal the ledger;
    home: the copy's folder; broken: its inverted lists are damaged; listless: they were left for later; lean: vectors
    of the tail are counted, and stay in the ledger: good for writing a copy, not for searching.
    """

    space_id: int
    dim: int
    seq: int
    base: SearchCopy
    home: Path | None = None
    broken: bool = False
    listless: bool = False
    lean: bool = False
    clock: int = -1
    tail: dict[int, Point] = field(default_factory=dict)
    terms: dict[int, int] = field(default_factory=dict)  # of the tail's episodes, see catalog/vectors/checksums.py
    joined: SearchCopy | None = None  # the tail as one segment, made when needed
    _since: int = field(init=False)  # the last ledger entry of the copy

    def __post_init__(self) -> None:
        """Note where the tail begins."""
        self._since = self.seq

    def take(self, entries: Sequence[LedgerEntry]) -> None:
        """Absorb ledger entries: new vectors, replaced ones, or tombstones."""
        self.base.segment.kill(np.array([entry.episode_id for entry in entries], np.int64))
        for entry in entries:
            self.seq = max(self.seq, entry.seq)
            self.tail.pop(entry.episode_id, None)
            self.terms.pop(entry.episode_id, None)
            if entry.vectors:
                point = _point_of(entry, self.dim)
                self.tail[entry.episode_id] = _without_vectors(point) if self.lean else point
                self.terms[entry.episode_id] = term(checksum(entry.vectors), entry.seq, entry.episode_id)
            self.joined = None

    def join_tail(self) -> tuple[SearchCopy, SearchCopy]:
        """Return disk copy and tail."""
        if self.joined is None:
            self.joined = SearchCopy(Segment.from_points([*self.tail.values()], self.dim))
        return self.base, self.joined

    def count(self) -> int:
        """Return the number of vectors of living episodes."""
        return self.base.segment.count() + self.count_tail()

    def catch_up(self, catalog: Catalog) -> bool:
        """Take in the catalog's ledger; False if what was here before is not of it.

        That is so after rows were dropped without tombstones, or another catalog was put in the place of this one: then
        number or checksum differ from those of the ledger.
        """
        while True:
            self.follow(catalog)
            ledger = self._read_totals(catalog)
            if ledger.last <= self.seq:
                return self._state() == (ledger.vectors, ledger.checksum)

    def _read_totals(self, catalog: Catalog) -> LedgerState:
        """Return the totals of the ledger, which a process stores beside the copy for others: they take long to sum."""
        if self.home is None or self.lean:
            return catalog.vectors.state(self.space_id)
        before = catalog.edition, *catalog.vectors.revision(self.space_id)
        stored = DerivedNumbers(self.home, before, LEDGER_FILE)
        if (known := stored.read(_TOTALS)) is not None:
            return LedgerState(*map(int, known))
        found = catalog.vectors.state(self.space_id)
        if (catalog.edition, *catalog.vectors.revision(self.space_id)) == before:
            stored.write(_TOTALS, found)
        return found

    def follow(self, catalog: Catalog) -> None:
        """Take in what the catalog's ledger has beyond seq: new vectors, replaced ones, tombstones."""
        entries = catalog.vectors.ledger(self.space_id, since=self.seq)
        while some := [*islice(entries, _TAKEN_AT_ONCE)]:
            self.take(some)

    def open_derived(self) -> DerivedNumbers | None:
        """Return what is stored beside the disk copy for exactly these vectors; None where there is no copy."""
        return None if self.home is None else DerivedNumbers(self.home, self._state())

    def _state(self) -> tuple[int, int]:
        """Return number and checksum of what lives here, to be compared with those of the ledger."""
        return self.count(), self.base.segment.checksum() + sum(self.terms.values())

    def count_tail(self) -> int:
        """Return the number of vectors in the tail."""
        return sum(len(point.vectors) for point in self.tail.values())

    def needs_copy(self, rule: CopyRule, *, ingesting: bool) -> bool:
        """Say whether a new disk copy is worth it; that of an ingest that has ended gets its lists."""
        tail, base = self.count_tail(), len(self.base.segment.vectors)
        listless = self.listless and not ingesting and rule.has_lists(base + tail, self.dim)
        return self.broken or listless or rule.is_due(tail, base, self.dim)

    def points(self, catalog: Catalog) -> Iterator[Point]:
        """Yield what there is now, whatever is taken in later; raises ChecksumError.

        Where this is lean, without what is replaced before it is read from the ledger.
        """
        alive = self.base.segment.alive.copy()
        tail = self._reread(catalog, dict(self.tail)) if self.lean else [*self.tail.values()]
        return (point for part in (self.base.segment.points(alive), tail) for point in part)

    def _reread(self, catalog: Catalog, tail: Mapping[int, Point]) -> Iterator[Point]:
        for entry in catalog.vectors.ledger(self.space_id, since=self._since):
            known = tail.get(entry.episode_id)
            if known is not None and known.seq == entry.seq:
                yield _point_of(entry, self.dim)

    def read_vectors(self, episodes: Ids) -> StoredRows:
        """Return the vectors of those of the episodes, ascending, that have any; raises ChecksumError."""
        parts = [copy.segment.read_some(episodes) for copy in self.join_tail()]
        some = [part for part in parts if len(part.episodes)] or parts[:1]
        return some[0] if len(some) == 1 else StoredRows.of(some[0].by_episode() | some[1].by_episode(), self.dim)

    def restore_clustering(self) -> Clustering | None:
        """Return to which lists the first of these points belong: those of the base."""
        if self.base.lists is None:
            return None
        known = self.base.lists.restore_clustering()
        living = np.repeat(self.base.segment.alive, np.diff(self.base.segment.starts))
        return replace(known, labels=known.labels[living])


def _point_of(entry: LedgerEntry, dim: int) -> Point:
    vectors = decode_vectors(entry.episode_id, entry.vectors or b"", (entry.count, dim))
    return Point(entry.episode_id, entry.seq, vectors)


def _without_vectors(point: Point) -> Point:
    return replace(point, vectors=np.broadcast_to(np.float32(0.0), point.vectors.shape))
