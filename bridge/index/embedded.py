"""The embedded default index: exact search over the ledger's vectors, with no server and no other library.

Knows: a memory-mapped flat copy per Space (generation.py), the tail of ledger entries that came after it, and that
every search first takes in what other processes have committed. Does not know: how vectors are made.

Crash-safe by construction: the ledger in the catalog is the truth, everything here can be thrown away.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index import generation
from bridge.index.base import Answer, Point, Request, Vectors, check_points, check_query
from bridge.index.segment import Ids, Segment, best, blas_threads
from catalog.filters import EVERYTHING
from wshard.errors import SpaceMismatchError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from catalog.catalog import Catalog
    from catalog.records import LedgerEntry
    from embedders.space import Space

_TAIL_SHARE: Final = 0.05


@dataclass(eq=False)
class _Held:
    """What this process holds of one Space: the generation and, after it, the tail.

    seq: the last ledger entry taken in; clock: the catalog's when all of this was last known to equal the ledger.
    """

    space_id: int
    dim: int
    seq: int
    base: Segment
    clock: int = -1
    tail: dict[int, Point] = field(default_factory=dict)
    joined: Segment | None = None  # the tail as one segment, made when needed

    def take(self, entry: LedgerEntry) -> None:
        """Absorb one ledger entry: new vectors, replaced ones, or a tombstone."""
        self.seq = max(self.seq, entry.seq)
        self.base.kill(np.array([entry.episode_id], np.int64))
        self.tail.pop(entry.episode_id, None)
        if entry.vectors is not None:
            vectors = np.frombuffer(entry.vectors, "<f4").reshape(entry.count, self.dim)
            self.tail[entry.episode_id] = Point(entry.episode_id, entry.seq, vectors)
        self.joined = None

    def segments(self) -> tuple[Segment, Segment]:
        """Return generation and tail."""
        if self.joined is None:
            self.joined = Segment.of([*self.tail.values()], self.dim)
        return self.base, self.joined

    def count(self) -> int:
        """Return the number of vectors of living episodes."""
        return self.base.count() + self.tail_rows()

    def tail_rows(self) -> int:
        """Return the number of vectors in the tail."""
        return sum(len(point.vectors) for point in self.tail.values())

    def overgrown(self, tail_rows: int) -> bool:
        """Say whether the tail is worth a new generation: more than so many rows, and than a share of the base."""
        return self.tail_rows() > max(tail_rows, _TAIL_SHARE * len(self.base.vectors))


class EmbeddedIndex:
    """VectorIndex over the ledger of one archive; `folder` holds the disposable flat copies.

    tail_rows: vectors that may come after a copy before a new one is written (more for copies above 20 times that).

    Several processes may read and write at once: each search sees everything committed before it. Threads may share
    one instance.
    """

    def __init__(self, catalog: Catalog, folder: Path, *, tail_rows: int = 20_000) -> None:
        self._catalog = catalog
        self._folder = folder
        self._tail_rows = tail_rows
        self._spaces: dict[str, _Held] = {}
        self._lock = threading.Lock()
        blas_threads()  # now, so that the first search need not

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Take in what the ledger has committed; writes a new generation when the tail has grown large.

        Raises VectorIndexError for points that the ledger does not know, or when the disk refuses the copy.
        """
        check_points(space, points)
        with self._lock:
            if not points and space.fingerprint not in self._spaces:
                self._check_living(space)
                return  # nothing new, and nobody has looked: a search will read it
            held = self._spaces.get(space.fingerprint) or self._open(space)
            self._take(held)
            self._check_living(space)
            if missing := [point.episode for point in points if point.seq > held.seq]:
                raise VectorIndexError(f"expected points that the ledger has committed, found episodes {missing[:5]}")
            # Another process may have written a newer generation meanwhile: look before writing one.
            if held.overgrown(self._tail_rows) and (held := self._open(space)).overgrown(self._tail_rows):
                self._compact(space, held)

    def search(self, space: Space, query: Vectors, request: Request) -> Answer:
        """Return the exact best matches of a unit vector [E]; always min(top_k, as many as pass the filter)."""
        check_query(space, query)
        wanted: Ids | None = None
        if request.where != EVERYTHING:
            wanted = np.array(self._catalog.ids(request.where), np.int64)
        with self._lock:
            segments = self._refresh(space).segments()
            if request.top_k < 1:
                return Answer((), exact=True, scored=0)
            matches, scored = best(segments, query, wanted, top_k=request.top_k, distinct=request.distinct)
        return Answer(tuple(matches), exact=True, scored=scored)

    def delete(self, space: Space, episodes: Sequence[int]) -> None:  # noqa: ARG002  (the ledger says which)
        """Take in the ledger's tombstones; an episode that was embedded again meanwhile stays."""
        with self._lock:
            self._refresh(space)

    def count(self, space: Space) -> int:
        """Return the number of vectors of living episodes."""
        with self._lock:
            return self._refresh(space).count()

    def scan(self, space: Space) -> Iterator[Point]:
        """Yield every living episode's vectors."""
        with self._lock:
            points = [point for segment in self._refresh(space).segments() for point in segment.points()]
        yield from points

    def _refresh(self, space: Space) -> _Held:
        """Return what equals the ledger as of now."""
        clock = self._catalog.clock()
        held = self._spaces.get(space.fingerprint)
        if held is None or (held.clock != clock and not self._catch_up(held)):
            held = self._open(space)
        if held.clock != clock:
            self._check_living(space)
        held.clock = clock
        return held

    def _open(self, space: Space) -> _Held:
        space_id = self._check_living(space)
        nothing = _Held(space_id, space.dim, 0, Segment.of([], space.dim))
        found = generation.read(
            self._folder / space.fingerprint, self._catalog.archive_id, space.fingerprint, self._catalog.clock()
        )
        opened = nothing if found is None else _Held(space_id, space.dim, found[0].seq, found[1])
        if not self._catch_up(opened):
            opened = nothing
            self._take(opened)
        self._spaces[space.fingerprint] = opened
        return opened

    def _catch_up(self, held: _Held) -> bool:
        """Take in the ledger; False if what was held is from before its rows were dropped and written anew.

        Dropped rows leave no tombstones, so that what is held then counts more vectors than the ledger.
        """
        while True:
            self._take(held)
            _, vectors, last = self._catalog.ledger_state(held.space_id)
            if last <= held.seq:
                return held.count() == vectors

    def _take(self, held: _Held) -> None:
        for entry in self._catalog.ledger(held.space_id, since=held.seq):
            held.take(entry)

    def _check_living(self, space: Space) -> int:
        """Return the Space's id and let go of retired ones; raises SpaceMismatchError if it is not the archive's."""
        living = {row.fingerprint: row.id for row in self._catalog.spaces() if row.state != "retired"}
        self._spaces = {fingerprint: held for fingerprint, held in self._spaces.items() if fingerprint in living}
        if space.fingerprint not in living:
            told = ", ".join(fingerprint[:12] for fingerprint in living) or "none"
            raise SpaceMismatchError(f"expected a Space of this archive ({told}), found {space.fingerprint[:12]}")
        return living[space.fingerprint]

    def _compact(self, space: Space, held: _Held) -> None:
        """Write what is held as a generation and go on with it; an older one of another process is as good."""
        about = generation.About(
            archive_id=self._catalog.archive_id,
            fingerprint=space.fingerprint,
            dim=space.dim,
            seq=held.seq,
            vectors=held.count(),
        )
        points = (point for segment in held.segments() for point in segment.points())
        try:
            generation.write(self._folder / space.fingerprint, about, points)
        except OSError as error:
            raise VectorIndexError(
                f"cannot write the search copy of {about.vectors} vectors in {self._folder}: {error}; "
                f"the vectors themselves are safe in the catalog, and search works without the copy"
            ) from error
        generation.sweep(self._folder, [row.fingerprint for row in self._catalog.spaces() if row.state != "retired"])
        del self._spaces[space.fingerprint]


def open_embedded(_url: str, catalog: Catalog, folder: Path) -> EmbeddedIndex:
    """Return the embedded index of an archive."""
    return EmbeddedIndex(catalog, folder)
