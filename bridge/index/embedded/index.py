"""The embedded default index: exact search over the ledger's vectors, with no server and no other library.

Knows: a memory-mapped copy per Space (generation.py), what a process holds of it (held.py), and that every search first
takes in what other processes have committed. Does not know: how vectors are made.

Crash-safe by construction: the ledger in the catalog is the truth, everything here can be thrown away. What was damaged
is: a part of the copy whose checksum is wrong is noticed before it is used, and the search goes on without the copy.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from bridge.index.base import Answer, check_points, check_query
from bridge.index.embedded import disk_copy
from bridge.index.embedded.background_job import Builder
from bridge.index.embedded.kmeans import group
from bridge.index.embedded.rerank import best
from bridge.index.embedded.router import explained
from bridge.index.embedded.segment import Segment
from bridge.index.embedded.snapshot import Held
from bridge.index.filter_cache import Passing
from bridge.index.metric import check_metric
from bridge.support.blas_threads import blas_threads
from wshard.errors import ChecksumError, SpaceMismatchError, UnknownIndexError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bridge.index.base import Point, Request, Vectors
    from bridge.index.embedded.rerank import Ranked
    from catalog.catalog import Catalog
    from embedders.space import Space

Result = TypeVar("Result")


class EmbeddedIndex:
    """VectorIndex over the ledger of one archive; `folder` holds the disposable copies.

    tail_rows: vectors that may come after a copy before a new one is written (more for copies above 20 times that).
    lists_rows: from so many vectors on a copy has certified lists, and is written in a thread beside everything else;
    close() waits for it. direct_rows: where no more vectors pass a filter, lists are not worth a look.

    Several processes may read and write at once: each search sees everything committed before it. Threads may share
    one instance. Use as a context manager, or close() it.
    """

    def __init__(
        self,
        catalog: Catalog,
        folder: Path,
        *,
        tail_rows: int = 20_000,
        lists_rows: int = 50_000,
        direct_rows: int = 30_000,
    ) -> None:
        self._catalog = catalog
        self._folder = folder
        self._tail_rows = tail_rows
        self._lists_rows = lists_rows
        self._direct_rows = direct_rows
        self._spaces: dict[str, Held] = {}
        self._damaged: set[Path] = set()
        self._passing = Passing(catalog)
        self._life = ""
        self._builder = Builder()
        self._waiting: dict[str, Space] = {}  # a new copy of these is due, but another one is being written
        self._lock = threading.Lock()
        blas_threads()  # now, so that the first search need not

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for a copy that is being written, and for those that became due meanwhile.

        Raises VectorIndexError where the disk refused one.
        """
        self._builder.settle()
        while self._waiting:
            with suppress(SpaceMismatchError):  # another ingest replaced the Space meanwhile
                self.upsert(self._waiting.popitem()[1], [])
            self._builder.settle()

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Take in what the ledger has committed; has a new generation written when the tail has grown large.

        Raises VectorIndexError for points that the ledger does not know, or when the disk refused a copy.
        """
        check_points(space, points)
        check_metric(space.metric)
        self._builder.told()
        with self._lock:
            self._clock()
            held = self._spaces.get(space.fingerprint) or self._open(space)
            held.follow(self._catalog)
            self._check_living(space)
            if missing := [point.episode for point in points if point.seq > held.seq]:
                raise VectorIndexError(f"expected points that the ledger has committed, found episodes {missing[:5]}")
            if not held.due(self._tail_rows):
                return
            if self._builder.busy:
                self._waiting[space.fingerprint] = space
                return
            # Another process may have written a newer generation meanwhile: look before writing one.
            while (held := self._open(space)).due(self._tail_rows) and not self._build(space, held):
                pass

    def search(self, space: Space, query: Vectors, request: Request) -> Answer:
        """Return the best matches of a unit vector [E]; always min(top_k, as many as pass the filter).

        Exact, unless request.budget ended it.
        """
        check_query(space, query)
        check_metric(space.metric)
        times = [time.perf_counter()]
        with self._lock:

            def ranked(held: Held) -> Ranked:
                times[1:] = [time.perf_counter()]
                wanted = self._passing.ids(request.where, held.clock)
                times.append(time.perf_counter())
                return best(held.segments(), query, wanted, request, direct_rows=self._direct_rows, metric=space.metric)

            result = self._using(space, ranked)
            held = self._spaces[space.fingerprint]
        scored = sum(one.scored for one in result.found)
        told = explained(result, held, times) if request.explain else None
        return Answer(result.matches, all(one.exact for one in result.found), scored, told)

    def delete(self, space: Space, episodes: Sequence[int]) -> None:  # noqa: ARG002  (the ledger says which)
        """Take in all that the ledger has buried, these episodes among it."""
        with self._lock:
            self._refresh(space)

    def rebuild(self, space: Space) -> None:
        """Remove the Space's copies, and write a new one where there are enough vectors; returns when that is done.

        Raises VectorIndexError where the disk refused it.
        """
        self._check_living(space)
        self.drop(space)
        self.count(space)  # reads the ledger, so that there is something to write
        self.upsert(space, [])
        self._builder.settle()

    def drop(self, space: Space) -> None:
        """Remove the Space's copies; they are made again when the ledger holds it."""
        self._builder.settle()
        with self._lock:
            self._spaces.pop(space.fingerprint, None)
            disk_copy.drop(self._place(space.fingerprint))

    def count(self, space: Space) -> int:
        """Return the number of vectors of living episodes."""
        with self._lock:
            return self._refresh(space).count()

    def scan(self, space: Space) -> Iterator[Point]:
        """Yield every living episode's vectors."""
        with self._lock:
            points = self._using(space, lambda held: [*held.points()])
        yield from points

    def _using(self, space: Space, use: Callable[[Held], Result]) -> Result:
        """Return what `use` makes of what equals the ledger as of now; again without what turns out to be damaged."""
        while True:
            held = self._refresh(space)
            try:
                return use(held)
            except ChecksumError:
                self._condemn(held)
                del self._spaces[space.fingerprint]

    def _condemn(self, held: Held) -> None:
        """Do without the lists, or, where these are sound, without the whole copy."""
        if held.home is None:
            raise VectorIndexError(f"expected a copy in {self._folder} to blame, found none")
        lists = held.home / "lists"
        try:
            if held.base.lists is not None and lists not in self._damaged:
                held.base.lists.check()
        except ChecksumError:
            self._damaged.add(lists)
        else:
            self._damaged.add(held.home)

    def _refresh(self, space: Space) -> Held:
        """Return what equals the ledger as of now."""
        clock = self._clock()
        held = self._spaces.get(space.fingerprint)
        if held is None or (held.clock != clock and not held.catch_up(self._catalog)):
            held = self._open(space)
        if held.clock != clock:
            self._check_living(space)
        held.clock = clock
        return held

    def _clock(self) -> int:
        """Return the catalog's clock; what is held of an archive that was restored since is let go of."""
        life, clock = self._catalog.instant()
        if life != self._life:
            self._life, self._spaces, self._passing = life, {}, Passing(self._catalog)
        return clock

    def _open(self, space: Space) -> Held:
        space_id = self._check_living(space)
        nothing = Held(space_id, space.dim, 0, Segment.of([], space.dim))
        last = self._catalog.clock()  # first, for it is this that tells the edition
        found = disk_copy.read(self._place(space.fingerprint), self._catalog.edition, space.fingerprint, last)
        opened = nothing if found is None or found.home in self._damaged else self._opened(space_id, found)
        if not opened.catch_up(self._catalog):
            opened = nothing
            opened.follow(self._catalog)
        self._spaces[space.fingerprint] = opened
        return opened

    def _opened(self, space_id: int, found: disk_copy.Opened) -> Held:
        broken = found.broken
        if found.home / "lists" in self._damaged:
            found.segment.lists, broken = None, True
        return Held(space_id, found.about.dim, found.about.seq, found.segment, found.home, broken)

    def _place(self, fingerprint: str) -> Path:
        return disk_copy.place(self._folder, self._catalog.archive_id, fingerprint)

    def _check_living(self, space: Space) -> int:
        """Return the Space's id and let go of retired ones; raises SpaceMismatchError if it is not the archive's."""
        living = {row.fingerprint: row.id for row in self._catalog.vectors.spaces() if row.state != "retired"}
        self._spaces = {fingerprint: held for fingerprint, held in self._spaces.items() if fingerprint in living}
        if space.fingerprint not in living:
            told = ", ".join(fingerprint[:12] for fingerprint in living) or "none"
            raise SpaceMismatchError(f"expected a Space of this archive ({told}), found {space.fingerprint[:12]}")
        return living[space.fingerprint]

    def _build(self, space: Space, held: Held) -> bool:
        """Write what is held as a generation, a large one beside everything else; False if held turned out damaged."""
        about = disk_copy.About(
            edition=self._catalog.edition,
            fingerprint=space.fingerprint,
            dim=space.dim,
            seq=held.seq,
            vectors=held.count(),
        )
        regroup = None
        if about.vectors >= self._lists_rows:
            regroup = partial(group, before=held.grouped(), metric=space.metric)
        living = [row.fingerprint for row in self._catalog.vectors.spaces() if row.state != "retired"]
        disk_copy.sweep(self._folder, self._catalog.archive_id, living)
        points = held.points()

        def write() -> bool:
            try:
                self._write(about, points, regroup)
            except ChecksumError:
                self._condemn(held)
                return False
            return True

        def write_beside() -> None:
            write()
            with self._lock:
                self._spaces.pop(space.fingerprint, None)

        if regroup is None:
            done = write()
            self._spaces.pop(space.fingerprint)
            return done
        self._builder.start(write_beside)
        return True

    def _write(self, about: disk_copy.About, points: Iterator[Point], regroup: disk_copy.Regroup | None) -> None:
        """Write a generation; an older one of another process is as good."""
        try:
            disk_copy.write(self._place(about.fingerprint), about, points, regroup)
        except OSError as error:
            raise VectorIndexError(
                f"cannot write the search copy of {about.vectors} vectors in {self._folder}: {error}; "
                f"the vectors themselves are safe in the catalog, and search works without the copy"
            ) from error


def open_embedded(_url: str, catalog: Catalog, folder: Path, token: str | None = None) -> EmbeddedIndex:
    """Return the embedded index of an archive; raises UnknownIndexError for a token, which nobody would ask for."""
    if token is not None:
        raise UnknownIndexError("expected the URL of a server beside a token, found the embedded index")
    return EmbeddedIndex(catalog, folder)
