"""What one process holds of a Space: the search copy, and the ledger entries that came after it.

Knows: how entries change what is held, whether that equals the ledger, and when a new copy is worth writing. Does not
know: files, threads, searching.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Point, stored_vectors
from bridge.index.embedded.lists_file import grouping_of
from bridge.index.embedded.segment import Segment
from catalog.vectors.checksums import term
from wshard.container.layout import checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bridge.index.embedded.kmeans import Grouping
    from catalog.catalog import Catalog
    from catalog.records import LedgerEntry

_TAIL_SHARE: Final = 0.05
_TAKEN_AT_ONCE: Final = 256  # ledger entries


@dataclass(eq=False)
class Held:
    """What this process holds of one Space: the generation and, after it, the tail.

    seq: the last ledger entry taken in; clock: the catalog's when all of this was last known to equal the ledger;
    home: the generation's folder; broken: its lists are damaged.
    """

    space_id: int
    dim: int
    seq: int
    base: Segment
    home: Path | None = None
    broken: bool = False
    clock: int = -1
    tail: dict[int, Point] = field(default_factory=dict)
    terms: dict[int, int] = field(default_factory=dict)  # of the tail's episodes, see catalog/vectors/checksums.py
    joined: Segment | None = None  # the tail as one segment, made when needed

    def take(self, entries: Sequence[LedgerEntry]) -> None:
        """Absorb ledger entries: new vectors, replaced ones, or tombstones."""
        self.base.kill(np.array([entry.episode_id for entry in entries], np.int64))
        for entry in entries:
            self.seq = max(self.seq, entry.seq)
            self.tail.pop(entry.episode_id, None)
            self.terms.pop(entry.episode_id, None)
            if entry.vectors:
                vectors = stored_vectors(entry.episode_id, entry.vectors, (entry.count, self.dim))
                self.tail[entry.episode_id] = Point(entry.episode_id, entry.seq, vectors)
                self.terms[entry.episode_id] = term(checksum(entry.vectors), entry.seq, entry.episode_id)
            self.joined = None

    def segments(self) -> tuple[Segment, Segment]:
        """Return generation and tail."""
        if self.joined is None:
            self.joined = Segment.of([*self.tail.values()], self.dim)
        return self.base, self.joined

    def count(self) -> int:
        """Return the number of vectors of living episodes."""
        return self.base.count() + self.tail_rows()

    def catch_up(self, catalog: Catalog) -> bool:
        """Take in the catalog's ledger; False if what was held is not of it.

        That is so after rows were dropped without tombstones, or another catalog was put in the place of this one: then
        number or checksum differ from those of the ledger.
        """
        while True:
            self.follow(catalog)
            ledger = catalog.vectors.state(self.space_id)
            if ledger.last <= self.seq:
                held = self.base.checksum() + sum(self.terms.values())
                return (self.count(), held) == (ledger.vectors, ledger.checksum)

    def follow(self, catalog: Catalog) -> None:
        """Take in what the catalog's ledger has beyond seq."""
        entries = catalog.vectors.ledger(self.space_id, since=self.seq)
        while some := [*islice(entries, _TAKEN_AT_ONCE)]:
            self.take(some)

    def tail_rows(self) -> int:
        """Return the number of vectors in the tail."""
        return sum(len(point.vectors) for point in self.tail.values())

    def due(self, tail_rows: int) -> bool:
        """Say whether a new generation is worth it: a tail of more than so many rows, and than a share of the base."""
        return self.broken or self.tail_rows() > max(tail_rows, _TAIL_SHARE * len(self.base.vectors))

    def points(self) -> Iterator[Point]:
        """Yield what is held now, whatever is taken in later; raises ChecksumError."""
        alive = self.base.alive.copy()
        tail = [*self.tail.values()]
        return (point for part in (self.base.points(alive), tail) for point in part)

    def grouped(self) -> Grouping | None:
        """Return to which lists the first of these points belong: those of the base."""
        if self.base.lists is None:
            return None
        known = grouping_of(self.base.lists)
        living = np.repeat(self.base.alive, np.diff(self.base.starts))
        return replace(known, labels=known.labels[living])
