"""Shards as actors of a Dask cluster."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bridge.index.shards.naming import Share
from bridge.index.shards.shard import Shard
from bridge.support.dask_workers import connect
from wshard.core.plugins import import_library
from wshard.errors import IndexUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.index.shards.engine import Actors
    from bridge.index.shards.shard import Reply

_CLOSING: Final = 10.0  # seconds


class DaskActors:
    """See Engine; an actor is the future of it, and all those of one name are a published data set."""

    def __init__(self, address: str, location: str, seconds: float) -> None:
        self._address = address
        self._location = location
        self._client = connect(address, IndexUnreachableError, seconds)
        self._actors: dict[str, Any] = {}  # by the key of the future

    def places(self) -> Sequence[str]:
        """Return the addresses of the workers."""
        return [*self._client.nthreads()]

    def find(self, name: str) -> Actors:
        """Return the actors of the data set that was published under this name."""
        try:
            found: Actors = self._client.get_dataset(f"wshard/{name}")
        except KeyError:
            return []
        return found

    def start(self, name: str, shards: int, replicas: int) -> Actors:
        """Start actors, evenly; see Engine."""
        workers = self.places()
        submit = partial(self._client.submit, Shard, self._location, actor=True, pure=False)
        futures = [
            [
                submit(
                    Share(number, shards),
                    _make_folder,
                    workers=workers[(number + copy) % len(workers)],
                    allow_other_workers=True,
                )
                for copy in range(replicas)
            ]
            for number in range(shards)
        ]
        try:
            self._client.publish_dataset(futures, name=f"wshard/{name}")
        except KeyError:
            return self.find(name)
        return futures

    def send(self, actor: Any, until: float, arguments: Sequence[Any]) -> Callable[[], Reply]:
        """Call an actor; returns what waits for its reply."""
        with self._client.as_current():
            if actor.key not in self._actors:
                self._actors[actor.key] = actor.result(timeout=_left(until))
            call = self._actors[actor.key].call(*arguments)
        return lambda: call.result(timeout=_left(until))

    def revive(self, actor: Any, error: Exception) -> None:
        """Run its constructor again if its worker is lost."""
        if self._client.status != "running":
            raise IndexUnreachableError(f"{self._address}: the scheduler does not answer any more") from error
        self._actors.pop(actor.key, None)
        if actor.status in ("error", "lost", "cancelled"):
            actor.retry()

    def close(self) -> None:
        """Leave the cluster, which keeps what is published."""
        self._client.close(timeout=_CLOSING)


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.01)


def _make_folder() -> Path:
    """Return a folder that the cluster removes when this worker has ended, however it did."""
    of_worker = import_library("distributed", "dask").get_worker().local_directory
    return Path(tempfile.mkdtemp(prefix="wshard-shard-", dir=of_worker))
