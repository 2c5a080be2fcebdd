"""One shard: the embedded index over every n-th episode of an archive, in a worker of a cluster."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.index.embedded.index import EmbeddedIndex
from catalog.catalog import Catalog
from wshard import __version__
from wshard.core.plugins import import_library
from wshard.errors import VectorIndexError

if TYPE_CHECKING:
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

    Each call reads the ledger first, as the embedded index does, so that a new shard fills itself. Its copies are in
    the folder of its worker, which the cluster removes when that has ended, however it did.
    """

    def __init__(self, location: str, share: Share) -> None:
        self._share = share
        self._catalog = Catalog.open(location, share=(share.number, share.of))
        of_worker = import_library("distributed", "dask").get_worker().local_directory
        self._folder = tempfile.TemporaryDirectory(prefix="wshard-shard-", dir=of_worker, ignore_cleanup_errors=True)
        self._index = EmbeddedIndex(self._catalog, Path(self._folder.name))

    def call(self, caller: Caller, verb: str, space: Space, *arguments: Any) -> Reply:
        """Return what this method of the index does; raises VectorIndexError for another archive or version."""
        own = Caller(self._catalog.archive_id)
        if own != caller:
            raise VectorIndexError(f"{self._share}: expected to be one of {caller}, found {own}: use another name")
        clock = self._catalog.clock()
        result = getattr(self._index, verb)(space, *arguments)
        return Reply([*result] if verb == "scan" else result, clock)
