"""The state of a Space in the memory of one process: its disk copy, and the later ledger entries (the tail)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.derived_numbers import LEDGER_FILE, DerivedNumbers
from bridge.index.embedded import disk_copy
from bridge.index.embedded.inverted_lists import SearchCopy
from bridge.index.embedded.tail import CountedTail, ReadTail
from catalog.vectors.records import LedgerState
from wshard.errors import ChecksumError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bridge.index.base import Ids, Point
    from bridge.index.embedded.kmeans import Clustering
    from bridge.index.embedded.tail import Tail
    from bridge.index.stored_rows import StoredRows
    from catalog.catalog import Catalog
    from catalog.vectors.records import LedgerEntry
    from embedders.space import Space

_TOTALS: Final = "totals"
_BATCH_ENTRIES: Final = 256  # ledger entries
_TAIL_NUMBERS: Final = 1 << 18  # in all vectors of a tail: each search compares all, the first one reads them singly
_INGEST_TAIL_NUMBERS: Final = 2 << 20  # the same during an ingest; these are searched in half a millisecond
_TAIL_SHARE: Final = 0.05  # of the vectors of a copy, allowed in its tail if that is more
_INGEST_FACTOR: Final = 16  # on the tail allowed during an ingest, up to the vectors of the copy
_LISTS_NUMBERS: Final = 2 << 20  # of all vectors; from here on inverted lists are quicker than comparing all
_LISTS_INGEST_FACTOR: Final = 64  # on the same during an ingest, as the copy will soon be replaced


@dataclass(frozen=True)
class CopyRule:
    """When a Space gets a new disk copy, and when that has inverted lists: large vectors count by their numbers."""

    tail_rows: int
    lists_rows: int

    def is_due(self, tail: int, base: int, dim: int, *, ingesting: bool = False) -> bool:
        """Return whether a new copy is due for `tail` vectors of this size after a copy of `base`."""
        had_lists, has_lists_now = (self.has_lists(count, dim, ingesting=ingesting) for count in (base, base + tail))
        if base and has_lists_now and not had_lists:
            return True
        min_tail = min(self.tail_rows, (_INGEST_TAIL_NUMBERS if ingesting else _TAIL_NUMBERS) // dim)
        return tail > max(min_tail, _TAIL_SHARE * base, min(base, _INGEST_FACTOR * min_tail) if ingesting else 0)

    def has_lists(self, vectors: int, dim: int, *, ingesting: bool = False) -> bool:
        """Return whether a copy of so many vectors of this size has inverted lists."""
        return vectors >= min(self.lists_rows, _LISTS_NUMBERS // dim) * (_LISTS_INGEST_FACTOR if ingesting else 1)


class UncopiedVectors:
    """Number of vectors in the tail and the disk copy of each Space, as far as known without opening the Space.

    waiting: Spaces for which a new copy, or the lists of the present one, is due.
    """

    def __init__(self, rule: CopyRule) -> None:
        self._rule = rule
        self._counts: dict[str, tuple[int, int]] = {}
        self._counted: set[str] = set()
        self.waiting: dict[str, Space] = {}

    def is_due(self, space: Space, points: Sequence[Point]) -> bool:
        """Count more vectors, and return whether to check if a copy is due; no points mean that an ingest has ended."""
        tail, base = self._counts.get(space.fingerprint, (0, 0))
        tail += sum(len(point.vectors) for point in points)
        self._counts[space.fingerprint] = tail, base
        if not points and (space.fingerprint in self.waiting or space.fingerprint not in self._counted):
            return True
        return self._rule.is_due(tail, base, space.dim, ingesting=bool(points))

    def may_wait(self, space: Space, points: Sequence[Point]) -> bool:
        """Return whether a copy that is due may wait for more vectors or the end, when it is written with lists."""
        vectors, has_lists = sum(self._counts[space.fingerprint]), self._rule.has_lists
        lists_wait = has_lists(vectors, space.dim) and not has_lists(vectors, space.dim, ingesting=True)
        return bool(points) and lists_wait and space.fingerprint not in self.waiting

    def note(self, space: Space, tail: int, base: int) -> None:
        """Record the counts of an opened Space."""
        self._counts[space.fingerprint] = tail, base
        self._counted.add(space.fingerprint)
        self.waiting.pop(space.fingerprint, None)

    def forget(self) -> None:
        """Forget the counts, so that every Space is checked again."""
        self._counts.clear()
        self._counted.clear()


@dataclass(eq=False)
class IndexSnapshot:
    """One Space as this process knows it: the disk copy and, after it, the tail.

    seq: the last ledger entry read; clock: the catalog's clock at which this last equalled the ledger; home: the copy's
    folder; lists_damaged: its inverted lists are damaged; lists_pending: they were postponed; lean: vectors of
    the tail are only counted and stay in the ledger, which suffices for writing a copy, but not for searching.
    """

    space_id: int
    dim: int
    seq: int
    base: SearchCopy
    home: Path | None = None
    lists_damaged: bool = False
    lists_pending: bool = False
    lean: bool = False
    clock: int = -1
    tail: Tail = field(init=False)
    _since: int = field(init=False)  # the last ledger entry of the copy

    def __post_init__(self) -> None:
        """Note where the tail begins."""
        self._since, self.tail = self.seq, (CountedTail if self.lean else ReadTail)(self.dim)

    @staticmethod
    def of(space_id: int, copy: disk_copy.OpenCopy, *, lean: bool, lists_damaged: bool = False) -> IndexSnapshot:
        """Return the state of a disk copy; lists_damaged: its lists are not used."""
        base, damaged = SearchCopy(copy.segment, None if lists_damaged else copy.lists), copy.lists_damaged
        dim, seq = copy.header.dim, copy.header.seq
        return IndexSnapshot(space_id, dim, seq, base, copy.home, damaged or lists_damaged, copy.lists_pending, lean)

    def take(self, entries: Sequence[LedgerEntry]) -> None:
        """Absorb ledger entries: new vectors, replaced ones, or tombstones."""
        self.base.segment.kill(np.array([entry.episode_id for entry in entries], np.int64))
        self.seq = max(self.seq, *(entry.seq for entry in entries))
        self.tail.take(entries)

    def join_tail(self) -> tuple[SearchCopy, SearchCopy]:
        """Return disk copy and tail."""
        return self.base, self.tail.join()

    def count(self) -> int:
        """Return the number of vectors of living episodes."""
        return self.base.segment.count() + self.tail.count()

    def catch_up(self, catalog: Catalog) -> bool:
        """Read the new entries of the catalog's ledger; False if the earlier state does not belong to it.

        That happens if rows were dropped without tombstones, or the catalog was replaced by another one: then number or
        checksum differ from those of the ledger.
        """
        while True:
            self.follow(catalog)
            ledger = self._read_totals(catalog)
            if ledger.last <= self.seq:
                return self._state() == (ledger.vectors, ledger.checksum)

    def _read_totals(self, catalog: Catalog) -> LedgerState:
        """Return the totals of the ledger, which are stored beside the copy, as summing them takes long."""
        if self.home is None or self.lean:
            return catalog.vectors.state(self.space_id)
        before = catalog.edition, *catalog.vectors.revision(self.space_id)
        stored = DerivedNumbers(self.home, before, LEDGER_FILE)
        if (cached := stored.read(_TOTALS)) is not None:
            return LedgerState(*map(int, cached))
        totals = catalog.vectors.state(self.space_id)
        if (catalog.edition, *catalog.vectors.revision(self.space_id)) == before:
            stored.write(_TOTALS, totals)
        return totals

    def follow(self, catalog: Catalog) -> None:
        """Read the entries of the catalog's ledger after seq: new vectors, replaced ones, tombstones."""
        entries = catalog.vectors.ledger(self.space_id, since=self.seq)
        while batch := [*islice(entries, _BATCH_ENTRIES)]:
            self.take(batch)

    def _state(self) -> tuple[int, int]:
        """Return number and checksum of the living vectors, to compare with those of the ledger."""
        return self.count(), self.base.segment.checksum() + self.tail.checksum()

    def needs_copy(self, rule: CopyRule, *, ingesting: bool) -> bool:
        """Return whether a new disk copy is due; when an ingest has ended, its copy gets lists."""
        tail, base = self.tail.count(), len(self.base.segment.vectors)
        needs_lists = self.lists_pending and not ingesting and rule.has_lists(base + tail, self.dim)
        return self.lists_damaged or needs_lists or rule.is_due(tail, base, self.dim)

    def points(self, catalog: Catalog) -> Iterator[Point]:
        """Yield the present points, whatever is added later; raises ChecksumError.

        If lean, points that are replaced before they are read from the ledger are left out.
        """
        alive = self.base.segment.alive.copy()
        tail = self.tail.points(partial(catalog.vectors.ledger, self.space_id, since=self._since))
        return (point for part in (self.base.segment.points(alive), tail) for point in part)

    def read_vectors(self, episodes: Ids) -> StoredRows:
        """Return the vectors of those of the episodes, ascending, that have any; raises ChecksumError."""
        base, tail = (copy.segment.read_some(episodes) for copy in self.join_tail())
        return base.join(tail)

    def restore_clustering(self) -> Clustering | None:
        """Return the clustering of the first of these points, those of the base."""
        if self.base.lists is None:
            return None
        clustering = self.base.lists.restore_clustering()
        living = np.repeat(self.base.segment.alive, np.diff(self.base.segment.starts))
        return replace(clustering, labels=clustering.labels[living])


def find_damage(catalog: Catalog, folder: Path, space: Space, *, data: bool) -> str:
    """Return the problem of the copy in a Space's folder, "" if there is none or no copy; data: compare every byte."""
    last = catalog.clock()
    if not (folder / "CURRENT").exists():
        return ""
    opened = disk_copy.read(folder, catalog.edition, space.fingerprint, last)
    if opened is None:
        return f"the copy in {folder} is damaged, or from before the archive was restored"
    space_id = next(row.id for row in catalog.vectors.spaces() if row.fingerprint == space.fingerprint)
    if not IndexSnapshot.of(space_id, opened, lean=True).catch_up(catalog):  # lean: with totals read anew
        return f"the copy in {opened.home} does not match the catalog"
    if opened.lists_damaged:
        return f"the lists of the copy in {opened.home} are damaged"
    if data:
        try:
            opened.segment.checksums.check()
            if opened.lists is not None:
                opened.lists.checksums.check()
        except ChecksumError as error:
            return f"the copy in {opened.home} is damaged: {error}"
    return ""
