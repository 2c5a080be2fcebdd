"""The archive that is served: opened once, for all requests."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from bridge.archive import open_archive
from bridge.results import make_ref
from bridge.search.retriever import TrajectoryRetriever
from bridge.web.jobs import Jobs

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from bridge.archive import Archive
    from bridge.results import EpisodeRef
    from catalog.catalog import Catalog


class ServedArchive:
    """An open archive, a retriever over it, its background jobs, and what was computed of its present state.

    Close it, or use it as a context manager.
    """

    def __init__(self, place: str | os.PathLike[str], *, index: str | None = None) -> None:
        self._place, self._index = place, index
        self.archive: Archive = open_archive(index or place, archive=place)
        self.jobs = Jobs()
        self.searching = threading.Lock()  # searches compute: side by side they only take each other's time
        self._known: dict[object, tuple[object, Any]] = {}

    @property
    def catalog(self) -> Catalog:
        """The archive's catalog."""
        return self.archive.catalog

    @cached_property
    def retriever(self) -> TrajectoryRetriever:
        """What searches the archive; opened by the first search."""
        return TrajectoryRetriever(self._index or self._place, archive=self._place)

    def episode(self, uid: str) -> EpisodeRef:
        """Return the episode of that uid as a hit; EntryNotFoundError when there is none."""
        row = self.catalog.episodes.get(uid)
        return make_ref(row, 1.0, (0, row.length))

    def remember(self, name: object, make: Callable[[], Any]) -> Any:
        """Return what is made of the archive as it is now, made before if nothing has changed since."""
        now = self.catalog.instant()
        known = self._known.get(name)
        if known is not None and known[0] == now:
            return known[1]
        made = make()
        if len(self._known) > 32:
            self._known.clear()
        self._known[name] = (now, made)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for jobs, and close everything."""
        self.jobs.close()
        if "retriever" in self.__dict__:
            self.retriever.close()
        self.archive.close()
