"""The archive that is served: opened once, for all requests."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from bridge.archive import open_archive
from bridge.results import make_ref
from bridge.web.jobs import Jobs
from bridge.web.undo import Undos
from bridge.web.uploads import Uploads
from wshard.errors import WShardError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from bridge.archive import Archive
    from bridge.results import EpisodeRef
    from catalog.catalog import Catalog

_MOST_QUEUES: Final = 32
_WARMING: Final = 40  # timesteps of the search that loads what searches need


class ServedArchive:
    """An open archive, its background jobs, and what was computed of its present state.

    Close it, or use it as a context manager.
    """

    def __init__(self, place: str | os.PathLike[str], *, index: str | None = None) -> None:
        self.place = place
        self.archive: Archive = open_archive(index or place, archive=place)
        self.jobs = Jobs()
        self.undos = Undos()
        self.uploads = Uploads()
        self.exporting = threading.Lock()  # whose name is free is decided for one export at a time
        self.queues: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.frames_read: dict[tuple[Any, ...], object] = {}  # the state of the archive at the end of each such job
        self.searching = threading.Lock()  # searches are CPU-bound: in parallel they would only slow each other down
        self._cache: dict[object, tuple[object, Any]] = {}
        self._making: dict[object, threading.Lock] = {}
        self._warming: threading.Thread | None = None

    def warm_up(self) -> None:
        """Search once in the background, so that the first search of a page finds everything loaded."""
        self._warming = threading.Thread(target=self._search_once, name="warm-up")
        self._warming.start()

    def _search_once(self) -> None:
        with suppress(WShardError, OSError):  # without vectors or files there is nothing to load
            row = self.catalog.query.select(limit=1).rows[:1]
            if row and row[0].length > _WARMING:
                with self.searching:
                    self.archive.moments(replace(self.episode(row[0].uid), span=(0, _WARMING)), 4)

    def keep_queue(self, key: tuple[Any, ...], queue: dict[str, Any]) -> None:
        """Remember a review queue, while people work through it."""
        while len(self.queues) >= _MOST_QUEUES:
            del self.queues[next(iter(self.queues))]
        self.queues[key] = queue

    @property
    def catalog(self) -> Catalog:
        """The archive's catalog."""
        return self.archive.catalog

    def episode(self, uid: str) -> EpisodeRef:
        """Return the episode of that uid as a hit; EntryNotFoundError when there is none."""
        row = self.catalog.episodes.get(uid)
        return make_ref(row, 1.0, (0, row.length))

    def remember(self, name: object, make: Callable[[], Any]) -> Any:
        """Return the result of make for the present archive, cached until the archive changes; others wait for it."""
        now = self.catalog.instant()
        with self._making.setdefault(name, threading.Lock()):
            cached = self._cache.get(name)
            if cached is not None and cached[0] == now:
                return cached[1]
            made = make()
            if len(self._cache) > 64:
                self._cache.clear()
                self._making.clear()
            self._cache[name] = (now, made)
            return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for jobs, and close everything."""
        if self._warming is not None:
            self._warming.join()
        self.jobs.close()
        self.uploads.close()
        self.archive.close()
