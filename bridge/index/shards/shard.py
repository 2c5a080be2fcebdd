"""One shard: the embedded index over every n-th episode of an archive, in a worker of a cluster."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bridge.index.embedded.index import EmbeddedIndex
from catalog.catalog import Catalog
from wshard import __version__
from wshard.errors import VectorIndexError, WShardError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bridge.index.shards.naming import Share
    from embedders.space import Space


@dataclass(frozen=True)
class Caller:
    """What a shard and who asks it must have in common."""

    archive_id: str
    version: str = __version__


@dataclass(frozen=True)
class Reply:
    """What a shard returned, and the position of its ledger before."""

    result: Any
    clock: int


class Shard:
    """An actor: it opens the archive where its worker sees it, and answers for its share of the episodes.

    Each call reads the ledger first, as the embedded index does, so that a new shard fills itself. find_folder: returns
    the folder for its copies where it is called. What keeps it from opening the archive is raised to each caller.
    """

    def __init__(self, location: str, share: Share, find_folder: Callable[[], Path]) -> None:
        self._location = location
        self._share = share
        self._find_folder = find_folder
        self._index: EmbeddedIndex | None = None
        with suppress(WShardError):
            self._open()

    def call(self, caller: Caller, verb: str, space: Space, *arguments: Any) -> Reply:
        """Return what this method of the index does; raises VectorIndexError for another archive or version."""
        if self._index is None:
            self._open()
        own = Caller(self._catalog.archive_id)
        if own != caller:
            raise VectorIndexError(f"{self._share}: expected to be one of {caller}, found {own}: use another name")
        clock = self._catalog.clock()
        result = getattr(self._index, verb)(space, *arguments)
        return Reply([*result] if verb == "scan" else result, clock)

    def _open(self) -> None:
        self._catalog = Catalog.open(self._location, share=(self._share.number, self._share.of))
        self._index = EmbeddedIndex(self._catalog, self._find_folder())
