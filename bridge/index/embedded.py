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
from bridge.index.base import Answer, Point, Request, Vectors, check_vectors
from bridge.index.segment import Ids, Segment, best
from catalog.filters import Where
from wshard.errors import SpaceMismatchError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from catalog.catalog import Catalog
    from catalog.records import LedgerEntry
    from embedders.space import Space

_TAIL_ROWS: Final = 20_000
_TAIL_SHARE: Final = 0.05


@dataclass(eq=False)
class _Held:
    """What this process holds of one Space: the generation and, after it, the tail."""

    space_id: int
    seq: int
    base: Segment
    tail: dict[int, Vectors] = field(default_factory=dict)
    joined: Segment | None = None  # the tail as one segment, made when needed

    def take(self, entry: LedgerEntry, dim: int) -> None:
        """Absorb one ledger entry: new vectors, replaced ones, or a tombstone."""
        self.seq = max(self.seq, entry.seq)
        self.base.kill(np.array([entry.episode_id], np.int64))
        self.tail.pop(entry.episode_id, None)
        if entry.vectors is not None:
            self.tail[entry.episode_id] = np.frombuffer(entry.vectors, "<f4").reshape(entry.count, dim)
        self.joined = None

    def segments(self) -> tuple[Segment, Segment]:
        """Return generation and tail."""
        if self.joined is None:
            self.joined = _join(self.tail, self.base.vectors.shape[1])
        return self.base, self.joined


def _join(tail: dict[int, Vectors], dim: int) -> Segment:
    sizes = [len(vectors) for vectors in tail.values()]
    vectors = np.concatenate([*tail.values()]) if tail else np.zeros((0, dim), np.float32)
    return Segment(np.array([*tail], np.int64), np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))), vectors)


def _nothing(space_id: int, dim: int) -> _Held:
    empty = Segment(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros((0, dim), np.float32))
    return _Held(space_id, 0, empty)


class EmbeddedIndex:
    """VectorIndex over the ledger of one archive; `folder` holds the disposable flat copies.

    Several processes may read and write at once: each search sees everything committed before it. Threads may share
    one instance.
    """

    def __init__(self, catalog: Catalog, folder: Path) -> None:
        self._catalog = catalog
        self._folder = folder
        self._spaces: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Take in what the ledger has committed; writes a new generation when the tail has grown large.

        Raises VectorIndexError for points that the ledger does not know, or when the disk refuses the copy.
        """
        for point in points:
            check_vectors(space, point.vectors)
        with self._lock:
            held = self._refresh(space)
            if missing := [point.episode for point in points if point.seq > held.seq]:
                raise VectorIndexError(f"expected points that the ledger has committed, found episodes {missing[:5]}")
            if len(held.segments()[1].vectors) > max(_TAIL_ROWS, _TAIL_SHARE * len(held.base.vectors)):
                self._compact(space, held)

    def search(self, space: Space, query: Vectors, request: Request) -> Answer:
        """Return the exact best matches of a unit vector [E]; always min(top_k, as many as pass the filter)."""
        check_vectors(space, query)
        wanted: Ids | None = None
        if request.where != Where():
            wanted = np.array(self._catalog.ids(request.where), np.int64)
        with self._lock:
            segments = self._refresh(space).segments()
            if request.top_k < 1:
                return Answer((), exact=True, scored=0)
            matches, scored = best(segments, query, wanted, top_k=request.top_k, distinct=request.distinct)
        return Answer(tuple(matches), exact=True, scored=scored)

    def delete(self, space: Space, episodes: Sequence[int]) -> None:
        """Take in the ledger's tombstones; the ledger has buried these episodes already."""
        with self._lock:
            held = self._refresh(space)
            gone = np.array(sorted(episodes), np.int64)
            if any(len(segment.find(gone)) for segment in held.segments()):
                raise VectorIndexError("expected episodes that the ledger has buried, found living ones")

    def count(self, space: Space) -> int:
        """Return the number of vectors of living episodes."""
        with self._lock:
            return sum(segment.count() for segment in self._refresh(space).segments())

    def scan(self, space: Space) -> Iterator[Point]:
        """Yield every living episode's vectors."""
        with self._lock:
            segments = self._refresh(space).segments()
        for segment in segments:
            yield from segment.points()

    def _refresh(self, space: Space) -> _Held:
        held = self._spaces.get(space.fingerprint)
        if held is None:
            return self._open(space)
        self._take(space, held)
        return held

    def _take(self, space: Space, held: _Held) -> None:
        for entry in self._catalog.ledger(held.space_id, since=held.seq):
            held.take(entry, space.dim)

    def _open(self, space: Space) -> _Held:
        known = [row for row in self._catalog.spaces() if row.fingerprint == space.fingerprint]
        if not known or known[0].state == "retired":
            held = ", ".join(f"{row.fingerprint[:12]} ({row.state})" for row in self._catalog.spaces()) or "none"
            raise SpaceMismatchError(f"expected a Space of this archive ({held}), found {space.fingerprint[:12]}")
        found = generation.read(
            self._folder / space.fingerprint, self._catalog.archive_id, space.fingerprint, self._catalog.clock()
        )
        opened = _Held(known[0].id, found[0].seq, found[1]) if found else _nothing(known[0].id, space.dim)
        self._take(space, opened)
        _, vectors, _ = self._catalog.ledger_state(opened.space_id)
        if sum(segment.count() for segment in opened.segments()) != vectors:
            # The copy is from before the ledger's rows were dropped and written anew: read everything instead.
            opened = _nothing(known[0].id, space.dim)
            self._take(space, opened)
        self._spaces[space.fingerprint] = opened
        return opened

    def _compact(self, space: Space, held: _Held) -> None:
        """Write what is held as a generation and go on with it; an older one of another process is as good."""
        about = generation.About(
            archive_id=self._catalog.archive_id,
            fingerprint=space.fingerprint,
            dim=space.dim,
            seq=held.seq,
            vectors=sum(segment.count() for segment in held.segments()),
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
