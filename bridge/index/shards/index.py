"""An index whose shards are actors of a cluster of Dask or Ray, which places, restarts and reaches them.

Each shard reads the ledger of the archive itself and answers for every n-th episode; the answers are merged here.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from bridge.index.base import Answer, VectorIndex, check_points, check_query
from bridge.index.living_spaces import LivingSpaces
from bridge.index.metric import check_metric
from bridge.index.shards.dask_actors import DaskActors
from bridge.index.shards.merge import check_answer, find_undecided, merge
from bridge.index.shards.naming import ShardsUrl, Share, parse_url
from bridge.index.shards.ray_actors import RayActors
from bridge.index.shards.shard import Caller
from wshard.errors import CatalogError, IndexUnreachableError, UnknownIndexError, VectorIndexError, WShardError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from bridge.index.base import Matches, Point, Request, Vectors
    from bridge.index.shards.engine import Actors, Engine
    from catalog.catalog import Catalog
    from embedders.space import Space

_FILLING: Final = 3600.0  # for anything else, which may wait until a shard has read its part of the ledger
_MARGIN: Final = 2  # how many more than its share of the hits each shard is asked for first


@dataclass(frozen=True)
class Replies:
    """What the shards returned, and what is wrong with the others."""

    results: Mapping[Share, Any]
    faults: Mapping[Share, str]

    def __str__(self) -> str:
        """Say which shards answered."""
        of = len(self.results) + len(self.faults)
        if not self.faults:
            return f"{of} of {of} shards"
        faults = "; ".join(f"{share} {fault}" for share, fault in self.faults.items())
        return f"{len(self.results)} of {of} shards answered; {faults}"


class ShardedIndex(VectorIndex):
    """VectorIndex over shards on a cluster; close it, or use it as a context manager.

    The first that uses a name on a cluster starts the shards, one a worker if the URL gives no number; they stay there.
    The workers must be able to open the archive at the same path or URL. Where a shard does not answer in its part of
    the time, fails, or has an older ledger, its next replica is asked. Without one the answer is inexact, and
    the shard is named in its coverage; that of a lost worker is started again elsewhere. Connects on first use.
    """

    def __init__(self, catalog: Catalog, url: ShardsUrl) -> None:
        self._catalog = catalog
        self._url = url
        self._living_spaces = LivingSpaces(catalog)
        self._engine: Engine | None = None
        self._shards: dict[Share, list[Any]] = {}  # the actors of its replicas
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; the shards stay."""
        if self._engine is not None:
            self._engine.close()
            self._engine, self._shards = None, {}

    def search(self, space: Space, query: Vectors, request: Request) -> Answer:
        """Return the best matches of the shards that answer; exact if all do, each by its whole share.

        Raises IndexUnreachableError if none does.
        """
        check_query(space, query)
        check_metric(space.metric)
        self._check_living(space)
        shards = self._connect()
        part = min(request.top_k, -(-request.top_k // len(shards)) * _MARGIN)
        replies = self._search(shards, space, query, replace(request, top_k=part))
        merged = self._merge(replies, request)
        scored = sum(answer.scored for answer in replies.results.values())
        undecided = find_undecided(replies.results, merged, part=part, top_k=request.top_k)
        if undecided:
            again = self._search(undecided, space, query, request)
            answers = {one: answer for one, answer in replies.results.items() if one not in undecided}
            replies = Replies({**answers, **again.results}, {**replies.faults, **again.faults})
            merged = self._merge(replies, request)
            scored += sum(answer.scored for answer in again.results.values())
        exact = not replies.faults and all(answer.exact for answer in replies.results.values())
        return Answer(merged, exact, scored, coverage=str(replies))

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Let the shards read the ledger and write their copies, once an ingest has ended: without points.

        Raises VectorIndexError for points that the ledger does not have, or without an answer of every shard.
        """
        check_points(space, points)
        check_metric(space.metric)
        self._check_living(space)
        clock = self._catalog.clock()
        if missing := [point.episode for point in points if point.seq > clock]:
            raise VectorIndexError(f"expected points that the ledger has committed, found episodes {missing[:5]}")
        if not points:
            self._order("upsert", space, [])

    def delete(self, space: Space, episodes: Sequence[int]) -> None:  # noqa: ARG002  (the ledger says which)
        """Do nothing but check the Space: every shard reads deletions from the ledger before it answers."""
        self._check_living(space)

    def count(self, space: Space) -> int:
        """Return the number of vectors of living episodes; raises VectorIndexError without an answer of every shard."""
        self._check_living(space)
        return sum(self._ask_all("count", space).values())

    def scan(self, space: Space) -> Iterator[Point]:
        """Yield every living episode's vectors, one shard after the other."""
        self._check_living(space)
        for share in self._connect():
            yield from self._ask_all("scan", space, shards=[share])[share]

    def rebuild(self, space: Space) -> None:
        """Let every shard build its copies again."""
        self._check_living(space)
        self._order("rebuild", space)

    def drop(self, space: Space) -> None:
        """Let every shard remove its copies of the Space."""
        self._order("drop", space)

    def _check_living(self, space: Space) -> None:
        self._living_spaces.find(space)

    def _search(self, shards: Collection[Share], space: Space, query: Vectors, request: Request) -> Replies:
        replies = self._ask(shards, self._url.timeout, "search", space, query, request)
        for share, answer in replies.results.items():
            check_answer(share, answer, request, space.metric)
        return replies

    def _merge(self, replies: Replies, request: Request) -> Matches:
        if not replies.results:
            raise IndexUnreachableError(f"{self._name}: {replies}")
        return merge(replies.results, request.top_k)

    def _ask_all(self, verb: str, space: Space, *arguments: Any, shards: Collection[Share] = ()) -> dict[Share, Any]:
        """Return the results of all shards; raises IndexUnreachableError without one of them."""
        replies = self._ask(shards or self._connect(), _FILLING, verb, space, *arguments)
        if replies.faults:
            raise IndexUnreachableError(f"{self._name}: {replies}")
        return dict(replies.results)

    def _order(self, verb: str, space: Space, *arguments: Any) -> None:
        """Let every replica of every shard do something; raises IndexUnreachableError without one of them."""
        shards = self._connect()
        for replica in range(self._replicas):
            actors = {share: replicas[replica] for share, replicas in shards.items()}
            replies = self._ask_once(actors, _FILLING, verb, space, *arguments)
            if replies.faults:
                raise IndexUnreachableError(f"{self._name}: {replies}")

    def _ask(self, shards: Collection[Share], patience: float, verb: str, space: Space, *arguments: Any) -> Replies:
        """Call a method of the shards' indexes, of all at once; where a replica is at fault, the next one is asked."""
        results: dict[Share, Any] = {}
        faults: dict[Share, str] = {}
        for replica in range(self._replicas):
            left = {share: self._shards[share][replica] for share in shards if share not in results}
            replies = self._ask_once(left, patience / self._replicas, verb, space, *arguments)
            results.update(replies.results)
            faults.update(replies.faults)
        remaining = (share for share in sorted(faults, key=lambda share: share.number) if share not in results)
        return Replies(results, {share: faults[share] for share in remaining})

    def _ask_once(self, actors: Mapping[Share, Any], patience: float, verb: str, space: Space, *args: Any) -> Replies:
        """Call a method of one replica of each of these shards; an answer from before this moment is a fault."""
        clock, until = self._catalog.instant().clock, time.monotonic() + patience
        arguments = (Caller(self._catalog.archive_id), verb, space, *args)
        results, faults, calls = {}, {}, {}
        for share, actor in actors.items():
            try:
                calls[share] = self._cluster.send(actor, until, arguments)
            except (OSError, RuntimeError, CatalogError) as error:
                faults[share] = self._revive(actor, error)
        for share, receive in calls.items():
            try:
                reply = receive()
                if reply.clock < clock:
                    faults[share] = f"is stale, at {reply.clock} of {clock} in the ledger"
                else:
                    results[share] = reply.result
            except (OSError, CatalogError) as error:
                faults[share] = self._revive(actors[share], error)
        return Replies(results, faults)

    def _revive(self, actor: Any, error: Exception) -> str:
        """Say what is wrong with a shard, and let the cluster start it again if it is lost."""
        self._cluster.revive(actor, error)
        return f"fails: {error}" if isinstance(error, WShardError) else "is silent"

    @property
    def _replicas(self) -> int:
        return len(next(iter(self._shards.values())))

    @property
    def _name(self) -> str:
        return f"{self._url.address}/{self._url.name}"

    @property
    def _cluster(self) -> Engine:
        """The cluster, connected to on first use."""
        if self._engine is None:
            self._engine = _ENGINES[self._url.engine](self._url.address, self._catalog.location, self._url.timeout)
        return self._engine

    def _connect(self) -> dict[Share, list[Any]]:
        """Return the shards of this name, started if there are none yet."""
        with self._lock:
            if not self._shards:
                actors = self._cluster.find(self._url.name) or self._start()
                self._shards = {Share(number, len(actors)): replicas for number, replicas in enumerate(actors)}
            for wanted, found, what in (
                (self._url.shards, len(self._shards), "shards"),
                (self._url.replicas, self._replicas, "replicas"),
            ):
                if wanted not in (None, found):
                    raise UnknownIndexError(f"{self._name}: expected {wanted} {what}, found {found}: use another name")
            return self._shards

    def _start(self) -> Actors:
        places, replicas = self._cluster.places(), self._url.replicas or 1
        if len(places) < replicas:
            raise IndexUnreachableError(
                f"{self._url.address}: expected at least {replicas} workers, as each replica is on another one, found "
                f"{len(places) or 'none'}"
            )
        return self._cluster.start(self._url.name, self._url.shards or len(places), replicas)


_ENGINES: Final[Mapping[str, Callable[[str, str, float], Engine]]] = {"dask": DaskActors, "ray": RayActors}


def open_shards(url: str, catalog: Catalog, _folder: Path, token: str | None = None) -> ShardedIndex:
    """Return the index of dask:// or ray://HOST:PORT/ARCHIVE?shards=N&replicas=N&timeout=S; UnknownIndexError."""
    if token is not None:
        raise UnknownIndexError("expected the URL of a server with a token, found shards on a cluster")
    return ShardedIndex(catalog, parse_url(url))
