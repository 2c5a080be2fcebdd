"""What an index in shards needs of the engine of a cluster; everything else is the same for all engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.index.shards.shard import Reply

Actors = list[list[Any]]
"""The actors of each shard, one a replica, as the engine knows them."""


class Engine(Protocol):
    """Starts Shards as actors, finds them again, and carries calls to them; the actors outlive it.

    Methods raise IndexUnreachableError if the cluster itself does not answer; made with the seconds to wait for it.
    """

    def places(self) -> Sequence[str]:
        """Return the names of the workers or machines that actors can be on."""

    def find(self, name: str) -> Actors:
        """Return the actors that were started under this name, [] if there are none."""

    def start(self, name: str, shards: int, replicas: int) -> Actors:
        """Start actors, evenly, each replica in another place if it can; or return those of a quicker process.

        An actor whose place is lost may be started again anywhere.
        """

    def send(self, actor: Any, until: float, arguments: Sequence[Any]) -> Callable[[], Reply]:
        """Call Shard.call, and return a function that waits for the reply until this time of time.monotonic().

        Both raise OSError for an actor that does not answer, and what it raises itself.
        """

    def revive(self, actor: Any, error: Exception) -> None:
        """Have an actor that failed with this error started again if it is lost."""

    def close(self) -> None:
        """Leave the cluster."""
