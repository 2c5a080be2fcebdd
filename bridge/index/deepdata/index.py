"""A DeepData server as vector index, and the checks that keep it correct on a server that loses data.

The server is not trusted: hits count only if the ledger has them under the same number and name, scores are recomputed
from the ledger's vectors, filters are the catalog's. What the server lacks, or cannot filter, is searched in the
ledger. So the server affects only speed and, within its recall, which hits are found.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from bridge.index.base import Answer, IndexFinding, VectorIndex, check_points, check_query
from bridge.index.deepdata import local_scores
from bridge.index.deepdata.api_versions import reach
from bridge.index.deepdata.audit import heal, inspect, remember, renew
from bridge.index.deepdata.collection import Link, Target, collection_name, create
from bridge.index.deepdata.fetch import fetch
from bridge.index.deepdata.push import push, sweep, sweep_retired
from bridge.index.deepdata.search import ServerView, ask, complete, look
from bridge.index.deepdata.settings import read_settings
from bridge.index.deepdata.trust import Trust
from bridge.index.living_spaces import LivingSpaces
from bridge.index.metric import COSINE
from bridge.index.stored_rows import find_allowed
from bridge.support.file_lock import locked
from wshard.errors import IndexDamagedError, IndexLostError, IndexUnreachableError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bridge.index.base import Ids, Point, Request, Vectors
    from bridge.index.deepdata.near import Near
    from bridge.index.deepdata.rate_limit import Throttle
    from bridge.index.deepdata.settings import Settings
    from catalog.catalog import Catalog
    from embedders.space import Space


class DeepDataIndex(VectorIndex):
    """VectorIndex on a DeepData server; close it, or use it as a context manager. Threads may share one instance.

    folder holds lock files. Small Spaces, and filters that few vectors pass, are answered from the ledger, which is
    faster and exact; always_ask: not so. audit_s: seconds after which the server is audited again; a broken connection
    makes an audit due at once. throttle: shared by several clients of one server. Connects on first use.
    """

    _reach = staticmethod(reach)

    def __init__(
        self,
        catalog: Catalog,
        folder: Path,
        settings: Settings,
        *,
        always_ask: bool = False,
        audit_s: float = 60.0,
        throttle: Throttle | None = None,
    ) -> None:
        self._catalog, self._folder, self._settings = catalog, folder, settings
        self._always_ask = always_ask
        self._wire, self._connect = self._reach(settings, throttle)
        self._trust = Trust(self._wire, audit_s)
        self._connected: Link | None = None
        self._living_spaces = LivingSpaces(catalog)
        self._views: dict[str, tuple[tuple[int, int, int, str], ServerView]] = {}
        self._nears: dict[str, Near] = {}
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._wire.close()

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Synchronise the server with the ledger; without points also remove obsolete documents.

        Raises VectorIndexError for points that the ledger does not have, and the Index...Errors of the server; unsent
        points are sent by a later call.
        """
        check_points(space, points)
        space_id = self._living(space)
        last = self._catalog.vectors.state(space_id).last
        if unknown := [point.episode for point in points if point.seq > last]:
            raise VectorIndexError(f"expected points that the ledger has committed, found episodes {unknown[:5]}")
        self._write(space, tidy=not points)

    def delete(self, space: Space, episodes: Sequence[int]) -> None:  # noqa: ARG002  (the ledger says which)
        """Remove from the server all vectors deleted in the ledger, including these; one request per vector."""
        self._living(space)
        self._write(space, tidy=True)

    def count(self, space: Space) -> int:
        """Return the number of living vectors that were sent to the server."""
        target = self._filled_target(space)
        return 0 if target is None else self._catalog.index_copies.count(target.copy.id)

    def scan(self, space: Space) -> Iterator[Point]:
        """Yield every episode whose vectors the server returns unchanged."""
        target = self._filled_target(space)
        if target is not None:
            yield from fetch(target)

    def search(self, space: Space, query: Vectors, request: Request) -> Answer:
        """Return the best matches of a unit vector [E]; always min(top_k, as many as pass the filter).

        exact: every vector that passes was scored locally. Raises IndexUnreachableError if the server does not answer.
        """
        check_query(space, query)
        with self._wire.within(self._settings.timeout):
            return self._search(space, query, request)

    def _search(self, space: Space, query: Vectors, request: Request) -> Answer:
        self._audit_if_due(space)
        view = self._view(space)
        allowed = find_allowed(self._catalog, request.where)
        best = local_scores.Best(query, request, allowed)
        if request.top_k < 1:
            return Answer((), exact=True, scored=0)
        best.offer(view.rest)
        examined, exact = 0, len(view.rest) >= view.vectors
        is_sufficient = exact
        is_local = view.is_local or self._trust.is_broken(space.fingerprint)
        is_local = is_local or (view.is_faster_here(allowed) and not self._always_ask)
        if not (exact or is_local):
            examined, is_sufficient = self._ask(view, best, query, request, allowed)
            is_sufficient = is_sufficient and not self._trust.is_broken(space.fingerprint)
        if not is_sufficient:
            complete(view, best, allowed)
            exact = True
        return Answer(best.matches(), exact=exact, scored=best.scored + examined)

    def audit(self, space: Space, *, full: bool = False) -> IndexFinding:
        """Compare the server with the ledger without changing anything; full: every document, not a sample."""
        target = self._filled_target(space)
        never = IndexFinding("new", 0, 0, reason="it was never filled")
        return never if target is None else inspect(target, full=full)

    def repair(self, space: Space) -> None:
        """Compare every document, and send missing ones; a collection with surplus documents is rebuilt."""
        with self._exclusive(space):
            target = self._target(space)
            heal(target, inspect(target, full=True))
        self._write(space, tidy=True)
        if self.audit(space).state != "ok":
            self.rebuild(space)

    def rebuild(self, space: Space) -> None:
        """Drop the Space's collection and fill a new one from the ledger."""
        with self._exclusive(space):
            create(renew(self._target(space)))
        self._write(space, tidy=True)

    def drop(self, space: Space) -> None:
        """Drop the Space's collection, and those of other Spaces that the archive does not hold any more."""
        with self._exclusive(space):
            link = self._link()
            sweep_retired(link)
            copies = self._catalog.index_copies
            row = next((row for row in self._catalog.vectors.spaces() if row.fingerprint == space.fingerprint), None)
            copy = None if row is None else copies.find(link.place, row.id)
            if copy is not None:
                renew(Target(link, space, copy))
                copies.close(copy.id)

    def _write(self, space: Space, *, tidy: bool) -> None:
        """Push; start again if the server turns out to have lost data, and after faults that may pass, as a proxy's."""
        losses = faults = 0
        with self._exclusive(space):
            while True:
                target = None
                try:
                    target = self._audited_target(space)
                    push(target, self._nears)
                    if tidy:
                        sweep(target)
                        sweep_retired(target.link)
                except (IndexLostError, IndexDamagedError) as error:
                    self._distrust(target, error)
                    losses += 1
                    if losses > 1:
                        raise
                except IndexUnreachableError:
                    self._trust.withdraw()
                    faults += 1
                    if faults >= self._settings.attempts:
                        raise
                    time.sleep(0.2 * faults)
                else:
                    return

    def _lock_file(self, space: Space) -> Path:
        return self._folder / f"{collection_name(self._link(), space.fingerprint)}.lock"

    @contextmanager
    def _exclusive(self, space: Space) -> Iterator[None]:
        with self._lock, locked(self._lock_file(space)):
            try:
                yield
            finally:
                self._views.pop(space.fingerprint, None)

    def _audited_target(self, space: Space) -> Target:
        """Return the target for writing, audited and repaired if due."""
        target = self._target(space)
        if self._trust.needs_audit(space.fingerprint) or target.copy.damaged:
            breaks = self._trust.begin()
            target = heal(target, inspect(target))
            self._trust.give(space.fingerprint, breaks)
        return target

    def _target(self, space: Space) -> Target:
        link, space_id = self._link(), self._living(space)
        return Target(link, space, self._catalog.index_copies.open(link.place, space_id))

    def _filled_target(self, space: Space) -> Target | None:
        """Return the target for reading, None if the Space was never sent to the server."""
        copy = self._catalog.index_copies.find(self._link().place, self._living(space))
        return None if copy is None else Target(self._link(), space, copy)

    def _distrust(self, target: Target | None, error: VectorIndexError) -> None:
        """Make an audit due before the server is used again; mark a collection with invalid answers as damaged."""
        self._trust.withdraw()
        if target is not None and isinstance(error, IndexDamagedError):
            self._catalog.index_copies.mark_damaged(target.copy.id)

    def _audit_if_due(self, space: Space) -> None:
        """Audit periodically; lost vectors are searched in the ledger until the next ingest sends them again."""
        name = space.fingerprint
        if not self._trust.needs_audit(name):
            return
        self._living(space)
        with self._lock, locked(self._lock_file(space), wait=False) as has_lock:
            if not has_lock:
                self._trust.postpone(name)
            for _ in range(2):  # if the connection breaks during the first comparison, repeat it
                if not (has_lock and self._trust.needs_audit(name)):
                    return
                breaks = self._trust.begin()
                target = self._filled_target(space)
                if target is not None and not target.copy.damaged:
                    remember(target, inspect(target))
                self._trust.give(name, breaks)

    def _ask(
        self, view: ServerView, best: local_scores.Best, query: Vectors, request: Request, allowed: Ids | None
    ) -> tuple[int, bool]:
        """Query the server like search.ask; if it can no longer be trusted, its results are not sufficient."""
        try:
            return ask(view, best, query, request, allowed)
        except (IndexLostError, IndexDamagedError) as error:
            self._distrust(view.target, error)
            return 0, False
        except IndexUnreachableError:
            self._trust.withdraw()
            raise

    def _view(self, space: Space) -> ServerView:
        """Return the present view of the Space, cached until the catalog or the copy changes."""
        link, cached = self._link(), self._views.get(space.fingerprint)
        if cached is not None:
            copy = self._catalog.index_copies.find(link.place, cached[1].space_id)
            if copy is not None and cached[0] == copy.state:
                return cached[1]  # the archive has not changed, so the Space still exists
        space_id = self._living(space)
        copy = self._catalog.index_copies.find(link.place, space_id)
        now = self._catalog.instant()
        key = (now.clock, -1, -1, now.history) if copy is None else copy.state
        if cached is None or cached[0] != key:
            cached = (key, look(link, space, space_id, always_ask=self._always_ask))
            self._views[space.fingerprint] = cached
        return cached[1]

    def _link(self) -> Link:
        with self._lock:
            if self._connected is None:
                self._connected = Link(self._catalog, self._connect(), self._settings)
            return self._connected

    def _living(self, space: Space) -> int:
        """Return the Space's id; raises SpaceMismatchError, and VectorIndexError for other metrics than cosine."""
        if space.metric != COSINE:
            raise VectorIndexError(
                f"expected a Space with the metric cosine, the only one that is sent to {self._settings.base}, found "
                f"{space.metric!r}: search it without a server"
            )
        return self._living_spaces.find(space)


def open_deepdata(url: str, catalog: Catalog, folder: Path, token: str | None = None) -> DeepDataIndex:
    """Return the index at a URL (see settings.py); raises UnknownIndexError for an invalid one."""
    return DeepDataIndex(catalog, folder, read_settings(url, token))
