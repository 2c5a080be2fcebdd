"""Shards as actors of a Ray cluster, which is reached through Ray Client."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bridge.index.shards.naming import Share
from bridge.index.shards.shard import Shard
from wshard import __version__
from wshard.core.plugins import import_library
from wshard.errors import IndexUnreachableError, UnknownIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.index.shards.engine import Actors
    from bridge.index.shards.shard import Reply

_NAMESPACE: Final = "wshard"
_NAME: Final = re.compile(r"(.+)/([0-9]+)-of-([0-9]+)/([0-9]+)-of-([0-9]+)")


class RayActor(NamedTuple):
    """What an actor is called on its cluster."""

    archive: str
    number: int
    shards: int
    copy: int
    replicas: int

    def __str__(self) -> str:
        """Return its name."""
        return f"{self.archive}/{self.number}-of-{self.shards}/{self.copy}-of-{self.replicas}"


class RayActors:
    """See Engine; an actor is its name, under which it is made once, whoever does."""

    def __init__(self, address: str, location: str, seconds: float) -> None:
        self._address = address
        self._location = location
        self._library = _connect(address, seconds)
        self._handles: dict[RayActor, Any] = {}

    @property
    def _ray(self) -> Any:
        """Ray, as long as it is connected."""
        self._check_connected()
        return self._library

    def _check_connected(self, cause: Exception | None = None) -> None:
        """Raise IndexUnreachableError if the head is lost; Ray gives up after a while."""
        if not self._library.is_initialized():
            raise IndexUnreachableError(f"{self._address}: the head of the cluster does not answer any more") from cause

    def places(self) -> Sequence[str]:
        """Return the ids of the machines."""
        return sorted(node["NodeID"] for node in self._ray.nodes() if node["Alive"])

    def find(self, name: str) -> Actors:
        """Return the actors of this name, also those that are yet to be made where somebody else was interrupted."""
        names = (
            one["name"]
            for one in self._ray.util.list_named_actors(all_namespaces=True)
            if one["namespace"] == _NAMESPACE
        )
        parts = (_NAME.fullmatch(one) for one in names)
        layouts = {(int(found[3]), int(found[5])) for found in parts if found is not None and found[1] == name}
        return _layout(name, *min(layouts)) if layouts else []  # of two that start at once, all take the same

    def start(self, name: str, shards: int, replicas: int) -> Actors:
        """Start actors, evenly; see Engine."""
        for replicas_of_one in _layout(name, shards, replicas):
            for actor in replicas_of_one:
                self._handles[actor] = self._make(actor)
        return self.find(name)

    def send(self, actor: Any, until: float, arguments: Sequence[Any]) -> Callable[[], Reply]:
        """Call an actor; returns what waits for its reply."""
        self._check_connected()
        if actor not in self._handles:
            self._handles[actor] = self._make(actor)
        return partial(self._receive, self._handles[actor].call.remote(*arguments), until)

    def revive(self, actor: Any, error: Exception) -> None:
        """Forget the handle; the next call makes an actor that Ray could not start again."""
        self._check_connected(error)
        self._handles.pop(actor, None)  # one that is lost for good is made anew with the next call

    def close(self) -> None:
        """Forget the handles; the connection is of the process."""
        self._handles = {}

    def _make(self, actor: RayActor) -> Any:
        """Return the handle of an actor, made unless it is there."""
        places = self.places()
        place = places[(actor.number + actor.copy) % len(places)]
        options = {
            "name": str(actor),
            "namespace": _NAMESPACE,
            "lifetime": "detached",
            "get_if_exists": True,
            "max_restarts": -1,
            "num_cpus": 0,  # it waits for calls, not for a core that others have taken
            "scheduling_strategy": self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                place, soft=True
            ),
        }
        share, find_folder = Share(actor.number, actor.shards), partial(_find_folder, str(actor))
        try:
            return self._ray.remote(Shard).options(**options).remote(self._location, share, find_folder)
        except ImportError as error:
            raise IndexUnreachableError(
                f"{self._address}: expected wshard {__version__} on every machine of the cluster: {error}"
            ) from error

    def _receive(self, call: Any, until: float) -> Reply:
        errors = self._ray.exceptions
        try:
            reply: Reply = self._ray.get(call, timeout=max(until - time.monotonic(), 0.01))
        except errors.RayTaskError as error:
            raise (error.cause or error) from None
        except errors.RayActorError as error:
            raise ConnectionError(str(error)) from error
        return reply


def _layout(name: str, shards: int, replicas: int) -> Actors:
    return [[RayActor(name, number, shards, copy, replicas) for copy in range(replicas)] for number in range(shards)]


_addresses: list[str] = []  # what this process has connected to, at most one
_lock = threading.Lock()


def _connect(address: str, seconds: float) -> Any:
    """Return Ray, connected; a process has one connection, and that of a program that uses Ray itself is taken."""
    ray = import_library("ray", "ray")
    with _lock:
        if not ray.is_initialized():
            _begin(ray, address, seconds)
            _addresses[:] = [address]
        elif _addresses not in ([], [address]):
            raise UnknownIndexError(
                f"expected shards on {_addresses[0]}, to which this process is connected, found {address}"
            )
    return ray


def _begin(ray: Any, address: str, seconds: float) -> None:
    host, _, port = address.rpartition("/")[2].rpartition(":")
    logging.getLogger("ray.client_builder").setLevel(logging.WARNING)  # it would say what it has been given
    try:
        socket.create_connection((host, int(port)), timeout=seconds).close()  # Ray would try for 30 s
        ray.init(address, namespace=_NAMESPACE, log_to_driver=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise IndexUnreachableError(f"{address}: expected the client server of a Ray cluster: {error}") from error


def _find_folder(name: str) -> Path:
    """Return the folder of an actor on its machine, where it finds its copies again after a restart.

    It is in that of the Ray session, as everything that Ray writes.
    """
    ray = import_library("ray", "ray")
    here = ray.get_runtime_context().get_node_id()
    (socket_name,) = (node["ObjectStoreSocketName"] for node in ray.nodes() if node["NodeID"] == here)
    folder = Path(socket_name).parents[1] / "wshard" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
