"""The embedded default index: exact search over the ledger's vectors, with no server and no other library.

The ledger in the catalog is the source of truth, which every search reads first; everything here is disposable. A
damaged part of a disk copy is detected by its checksum before it is used, and the search continues without it.
"""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from bridge.index.base import Answer, VectorIndex, check_points, check_query
from bridge.index.derived_numbers import DerivedNumbers
from bridge.index.embedded import copy_folders, disk_copy
from bridge.index.embedded.inverted_lists import SearchCopy
from bridge.index.embedded.kmeans import cluster, leave_for_later
from bridge.index.embedded.rerank import explain, rank
from bridge.index.embedded.router import SearchPlan
from bridge.index.embedded.segment import Segment
from bridge.index.embedded.snapshot import CopyRule, IndexSnapshot, UncopiedVectors, find_damage
from bridge.index.living_spaces import LivingSpaces
from bridge.index.metric import check_metric
from bridge.index.stored_rows import find_allowed, find_space, load_spaces
from bridge.support.background_job import BackgroundJob
from bridge.support.blas_threads import blas_threads
from wshard.errors import ChecksumError, SpaceMismatchError, UnknownIndexError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from bridge.index.base import Ids, Point, Request, Vectors
    from bridge.index.embedded.rerank import Ranking
    from bridge.index.stored_rows import StoredRows
    from catalog.catalog import Catalog
    from embedders.space import Space

Result = TypeVar("Result")


class EmbeddedIndex(VectorIndex):
    """VectorIndex over the ledger of one archive; `folder` holds the disposable copies.

    tail_rows: vectors, but at most 260,000 numbers, that may follow a copy before a new one is written (more for copies
    above 20 times that). lists_rows: number of vectors, or two million numbers, from which on a copy of unit vectors
    has inverted lists; it is written in a background thread, for which close() waits. direct_rows: if a filter leaves
    at most so many vectors, lists are not used.

    Processes and threads may read and write at once: each search sees everything committed before it. Use as a context
    manager, or close() it.
    """

    def __init__(
        self,
        catalog: Catalog,
        folder: Path,
        *,
        tail_rows: int = 20_000,
        lists_rows: int = 50_000,
        direct_rows: int = 15_000,
    ) -> None:
        self._catalog = catalog
        self._folder = folder
        self._rule = CopyRule(tail_rows, lists_rows)
        self._direct_rows = direct_rows
        self._spaces: dict[str, IndexSnapshot] = {}
        self._uncopied = UncopiedVectors(self._rule)
        self._damaged: set[Path] = set()
        self._living_spaces = LivingSpaces(catalog)
        self._life = ""
        self._job = BackgroundJob()
        self._lock = threading.Lock()
        blas_threads()  # now, so that the first search need not

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def wait_for_copies(self, *, but_for_last: bool = False) -> None:
        """See VectorIndex; copies are written one after the other, those that waited longest first."""
        self._job.wait()
        self._uncopied.forget()
        while waiting := self._uncopied.waiting:
            with suppress(SpaceMismatchError):  # another ingest replaced the Space meanwhile
                self.upsert(waiting.pop(next(iter(waiting))), [])
            if waiting or not but_for_last:
                self._job.wait()

    close = wait_for_copies

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Read what the ledger has committed; start writing a new disk copy if the tail has grown large.

        Raises VectorIndexError for points that the ledger does not have, or if a copy could not be written.
        """
        check_points(space, points)
        check_metric(space.metric)
        self._job.raise_failure()
        with self._lock:
            clock = self._clock()
            self._check_living(space)
            if missing := [point.episode for point in points if point.seq > clock]:
                raise VectorIndexError(f"expected points that the ledger has committed, found episodes {missing[:5]}")
            if not self._uncopied.is_due(space, points):
                return
            if self._job.busy or self._uncopied.may_wait(space, points):
                self._uncopied.waiting[space.fingerprint] = space
                return
            is_searched = space.fingerprint in self._spaces  # look before writing: another process may have done so
            while (snapshot := self._open(space, lean=not is_searched)).needs_copy(self._rule, ingesting=bool(points)):
                self._uncopied.note(space, 0, snapshot.count())
                if self._build(space, snapshot, ingesting=bool(points)):
                    break
            else:
                self._uncopied.note(space, snapshot.tail.count(), len(snapshot.base.segment.vectors))

    def search(self, space: Space, query: Vectors, request: Request) -> Answer:
        """Return the best matches of a unit vector [E]; always min(top_k, as many as pass the filter).

        Exact, unless request.budget ended it.
        """
        check_query(space, query)
        check_metric(space.metric)
        times = [time.perf_counter()]

        def rank_by(snapshot: IndexSnapshot) -> Ranking:
            times[1:] = [time.perf_counter()]
            allowed = find_allowed(self._catalog, request.where)
            times.append(time.perf_counter())
            return rank(snapshot.join_tail(), query, allowed, SearchPlan(request, space.metric, self._direct_rows))

        with self._lock:
            ranking = self._retry_undamaged(space, rank_by)
            snapshot = self._spaces[space.fingerprint]
        exact, scored = all(one.exact for one in ranking.found), sum(one.scored for one in ranking.found)
        return Answer(ranking.matches, exact, scored, explain(ranking, snapshot, times) if request.explain else None)

    def delete(self, space: Space, episodes: Sequence[int]) -> None:  # noqa: ARG002  (the ledger says which)
        """Read all deletions from the ledger, among them those of these episodes."""
        with self._lock:
            self._refresh(space)

    def rebuild(self, space: Space) -> None:
        """Remove the Space's copies, and write a new one if there are enough vectors; returns when that is done.

        Raises VectorIndexError if it could not be written.
        """
        self._check_living(space)
        self.drop(space)
        self.upsert(space, [])
        self._job.wait()

    def drop(self, space: Space) -> None:
        """Remove the Space's copies; they are made again when the ledger holds it."""
        self._job.wait()
        with self._lock:
            self._uncopied.forget()
            self._spaces.pop(space.fingerprint, None)
            copy_folders.drop(self._find_folder(space))

    def count(self, space: Space) -> int:
        """Return the number of vectors of living episodes."""
        with self._lock:
            return self._refresh(space).count()

    def scan(self, space: Space) -> Iterator[Point]:
        """Yield every living episode's vectors."""
        with self._lock:
            points = self._retry_undamaged(space, lambda snapshot: [*snapshot.points(self._catalog)])
        yield from points

    def read_vectors(self, space: Space, episodes: Ids) -> StoredRows:
        """Return the vectors of those of the episodes, ascending ids, that have any."""
        with self._lock:
            return self._retry_undamaged(space, lambda snapshot: snapshot.read_vectors(episodes))

    def open_derived(self, space: Space) -> DerivedNumbers | None:
        """Return what is stored of numbers derived from all vectors, now or before, in this edition of the archive."""
        return DerivedNumbers(self._find_folder(space), [self._catalog.edition])

    def check_copy(self, space: Space, *, data: bool = False) -> str:
        """Compare the Space's disk copy with the ledger."""
        return find_damage(self._catalog, self._find_folder(space), space, data=data)

    def leftovers(self, living: Iterable[str]) -> list[Path]:
        """Return what `copy_folders.find_leftovers` does."""
        return copy_folders.find_leftovers(self._folder, self._catalog.archive_id, living)

    def _retry_undamaged(self, space: Space, use: Callable[[IndexSnapshot], Result]) -> Result:
        """Return use(snapshot) for the present state of the ledger; retry without parts that turn out to be damaged."""
        while True:
            snapshot = self._refresh(space)
            try:
                return use(snapshot)
            except ChecksumError:
                self._mark_damaged(snapshot)
                del self._spaces[space.fingerprint]

    def _mark_damaged(self, snapshot: IndexSnapshot) -> None:
        """Mark the lists as damaged, or, if these are sound, the whole copy."""
        if snapshot.home is None:
            raise VectorIndexError(f"expected a copy in {self._folder} to blame, found none")
        lists = snapshot.home / copy_folders.LISTS
        self._uncopied.forget()
        try:
            if snapshot.base.lists is not None and lists not in self._damaged:
                snapshot.base.lists.checksums.check()
        except ChecksumError:
            self._damaged.add(lists)
        else:
            self._damaged.add(snapshot.home)

    def _refresh(self, space: Space) -> IndexSnapshot:
        """Return a snapshot that equals the present ledger."""
        clock = self._clock()
        snapshot = self._spaces.get(space.fingerprint)
        if snapshot is None or (snapshot.clock != clock and not snapshot.catch_up(self._catalog)):
            snapshot = self._open(space)
        if snapshot.clock != clock:
            self._check_living(space)
        snapshot.clock = clock
        return snapshot

    def _clock(self) -> int:
        """Return the catalog's clock; snapshots of an archive that was restored since are dropped."""
        life, clock = self._catalog.instant()
        if life != self._life:
            self._life, self._spaces = life, {}
            self._uncopied.forget()
        return clock

    def _open(self, space: Space, *, lean: bool = False) -> IndexSnapshot:
        """Return a new snapshot of the Space; lean: without the vectors of its tail, enough for an ingest."""
        space_id = self._check_living(space)
        empty = IndexSnapshot(space_id, space.dim, 0, SearchCopy(Segment.from_points([], space.dim)), lean=lean)
        last = self._catalog.clock()  # read before the edition, which it updates
        copy = disk_copy.read(self._find_folder(space), self._catalog.edition, space.fingerprint, last)
        opened = empty
        if copy is not None and copy.home not in self._damaged:
            lists_damaged = copy.home / copy_folders.LISTS in self._damaged
            opened = IndexSnapshot.of(space_id, copy, lists_damaged=lists_damaged, lean=lean)
        if not opened.catch_up(self._catalog):
            opened = empty
            opened.follow(self._catalog)
        if not lean:
            self._spaces[space.fingerprint] = opened
        return opened

    def _find_folder(self, space: Space) -> Path:
        return copy_folders.find_folder(self._folder, self._catalog.archive_id, space.fingerprint)

    def _check_living(self, space: Space) -> int:
        """Return the Space's id, and drop snapshots of retired ones; raises SpaceMismatchError for a foreign Space."""
        living = self._living_spaces.find_all(space)
        self._spaces = {key: snapshot for key, snapshot in self._spaces.items() if key in living}
        return find_space(living, space)

    def _build(self, space: Space, snapshot: IndexSnapshot, *, ingesting: bool) -> bool:
        """Write a new disk copy, a large one in the background; False if the older one turned out to be damaged."""
        vectors = snapshot.count()
        header = disk_copy.CopyHeader(self._catalog.edition, space.fingerprint, space.dim, snapshot.seq, vectors)
        recluster: disk_copy.Recluster | None = None
        if self._rule.has_lists(vectors, space.dim, ingesting=ingesting):
            recluster = partial(cluster, before=snapshot.restore_clustering())
        elif self._rule.has_lists(vectors, space.dim):
            recluster, self._uncopied.waiting[space.fingerprint] = leave_for_later, space
        copy_folders.sweep(self._folder, self._catalog.archive_id, load_spaces(self._catalog))
        points = snapshot.points(self._catalog)

        def write(lock: AbstractContextManager[object]) -> bool:
            is_sound = True
            try:
                disk_copy.write_or_explain(self._find_folder(space), header, points, recluster)
            except ChecksumError:
                self._mark_damaged(snapshot)
                is_sound = False
            with lock:
                self._spaces.pop(space.fingerprint, None)
            return is_sound

        if recluster is None:
            return write(nullcontext())
        self._job.start(partial(write, self._lock))
        return True


def open_embedded(_url: str, catalog: Catalog, folder: Path, token: str | None = None) -> EmbeddedIndex:
    """Return the embedded index of an archive; raises UnknownIndexError if a token is given."""
    if token is not None:
        raise UnknownIndexError("expected the URL of a server with a token, found the embedded index")
    return EmbeddedIndex(catalog, folder)
