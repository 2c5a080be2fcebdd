"""Taking episodes in as they come: which files in a folder are new, and finished.

Knows: events of the file system, and that they may be late, doubled or lost, so that folders are also looked through
now and then. Does not know: how a file is ingested.

A file is taken when it has been left alone for a moment and is as long as its header says: one that was renamed into
place is at once. Any other one is tried when nobody has written to it for some seconds, so that it can be reported.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final, TypeAlias

from bridge.discover import is_episode, walk
from bridge.reading import Failure, locate
from bridge.register import unseen
from bridge.run import IngestReport, batches
from wshard.errors import CatalogError, FormatError, IngestError, MissingExtraError, SourceNotFoundError, WShardError
from wshard.layout import HEADER_SIZE, unpack_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from catalog.catalog import Catalog

    Ingest = Callable[[Sequence[str]], IngestReport]
    Listen = Callable[[Sequence[str], Event], Iterator[Iterable[tuple[object, str]]]]

_STEP_MS: Final = 50  # events that follow one another so closely are one
_TICK_MS: Final = 250  # between two looks at files that may be finished
_STILL_S: Final = 0.2  # a complete file is left alone for so long
_SETTLED_S: Final = 2.0  # any other one
_LOOK_AGAIN_S: Final = 300.0  # events get lost: on network drives, and where too many come at once
_WAIT_S: Final = 2.0  # after an error, doubled up to
_WAIT_LONGEST_S: Final = 60.0

_WORTH_TELLING: Final = ("new", "changed", "moved", "embedded", "tasks")

State: TypeAlias = tuple[int, int]
"""Size and modification time of a file."""


@dataclass
class Arrivals:
    """Files that may be finished soon, and those that were refused as they were."""

    waiting: dict[str, tuple[State, float]] = field(default_factory=dict)
    refused: dict[str, State] = field(default_factory=dict)

    def note(self, path: str) -> None:
        """Something happened to this file."""
        state = state_of(path)
        if state is not None and self.refused.get(path) != state and self.waiting.get(path, (None,))[0] != state:
            self.waiting[path] = (state, time.monotonic())

    def ready(self) -> list[str]:
        """Return the files that seem to be finished, by path."""
        found = []
        for path in sorted(self.waiting):
            before, since = self.waiting[path]
            state, still = state_of(path), time.monotonic() - since
            if state is None:
                del self.waiting[path]
            elif state != before:
                self.waiting[path] = (state, time.monotonic())
            elif still >= _SETTLED_S or (still >= _STILL_S and is_complete(path)):
                found.append(path)
        return found

    def settle(self, paths: Iterable[str], report: IngestReport) -> None:
        """Wait for these files no longer; of the failures in the report leave those that were not told before."""
        for path in paths:
            self.waiting.pop(path, None)
        fresh = []
        for failure in report.failed:
            state = state_of(failure.path)
            if state is None or self.refused.get(failure.path) != state:
                fresh.append(failure)
            if state is not None:
                self.refused[failure.path] = state
        report.failed = fresh


def state_of(path: str) -> State | None:
    """Return the state of a file, None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  (as locate() names files)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def is_complete(path: str) -> bool:
    """Say whether the file is as long as its header says."""
    try:
        with Path(path).open("rb") as file:
            unpack_header(file.read(HEADER_SIZE), os.fstat(file.fileno()).st_size, path)
    except (FormatError, OSError):
        return False
    return True


def watch(
    archive: Archive, ingest: Ingest, folders: Sequence[str | os.PathLike[str]], stop: Event | None
) -> Iterator[IngestReport]:
    """Yield a report of each batch: first of what earlier runs left unfinished, then of what is there and comes."""
    missing = [str(folder) for folder in folders if not (os.fspath(folder) and Path(folder).is_dir())]
    if missing or not folders:
        raise SourceNotFoundError(f"expected folders to watch, found {', '.join(map(repr, missing)) or 'none'}")
    listen = _listener()
    places = [locate(folder) for folder in folders]
    for place in places:
        archive.catalog.add_root(place)
    return _batches(archive, ingest, _arriving(archive, listen, places, stop or Event()))


def _batches(archive: Archive, ingest: Ingest, ticks: Iterator[Iterable[str]]) -> Iterator[IngestReport]:
    arrivals, wait = Arrivals(), _WAIT_S
    hold = due = 0.0  # nothing is tried before the one, and something after the other although nothing came
    for changed in ticks:
        for path in changed:
            arrivals.note(path)
        files, now = arrivals.ready(), time.monotonic()
        if now < hold or not (files or now >= due):
            continue
        try:
            report = ingest(files)
            arrivals.settle(files, report)
            well = report.delayed is None
        except (WShardError, OSError) as error:
            report = IngestReport(failed=[Failure(str(archive.folder), f"{error}; what came waits, to be tried again")])
            well = False
        hold, wait = (0.0, _WAIT_S) if well else (now + wait, min(2 * wait, _WAIT_LONGEST_S))
        due = math.inf if well else hold
        if not well or report.failed or any(getattr(report, name) for name in _WORTH_TELLING):
            yield report


def _arriving(archive: Archive, listen: Listen, places: Sequence[str], stop: Event) -> Iterator[Iterable[str]]:
    """Yield, a few times a second, the files that something happened to; at first and now and then all new ones."""
    listened = False
    while not stop.is_set():
        there = [place for place in places if Path(place).is_dir()]
        try:
            events = listen(there, stop) if there else iter(())
            first = next(events, ())  # from here on nothing is missed
            listened = True
            yield [*_files(first, places), *_unknown(archive.catalog, there)]
            until = time.monotonic() + _LOOK_AGAIN_S
            for found in events:
                yield _files(found, places)
                if time.monotonic() > until:
                    break
        except (OSError, RuntimeError) as error:  # the second is what watchfiles raises for its own troubles
            if not listened:
                raise IngestError(f"cannot watch {', '.join(places)}: {error}") from error
            there = []
        if not there:
            stop.wait(_WAIT_S)


def _files(events: Iterable[tuple[object, str]], places: Sequence[str]) -> Iterator[str]:
    """Yield the episode files of events; a folder that came brings what is in it."""
    for _, path in events:
        place = next((place for place in places if path.startswith(f"{place}/")), "")
        if any(part.startswith(".") for part in path[len(place) :].split("/")):
            continue
        if Path(path).is_dir():
            yield from _below(path)
        elif is_episode(Path(path).name):
            yield locate(path)


def _below(folder: str) -> Iterator[str]:
    for place, names in walk(folder, []):
        yield from (locate(f"{place}/{name}") for name in names if is_episode(name))


def _unknown(catalog: Catalog, places: Iterable[str]) -> list[str]:
    """Return the files in these folders that the catalog does not know as they are now."""
    paths = [path for place in places for path in _below(place)]
    try:
        return [path for batch in batches(paths) for path in unseen(catalog, batch)]
    except CatalogError:  # ingest will tell
        return paths


def _listener() -> Listen:
    try:
        from watchfiles import watch as listen  # noqa: PLC0415  (only watching needs it)
    except ImportError as error:
        raise MissingExtraError("watching needs watchfiles: pip install 'wshard[watch]'") from error

    def listening(places: Sequence[str], stop: Event) -> Iterator[Iterable[tuple[object, str]]]:
        return listen(
            *places,
            watch_filter=None,
            debounce=_TICK_MS,
            step=_STEP_MS,
            rust_timeout=_TICK_MS,
            yield_on_timeout=True,
            stop_event=stop,
            ignore_permission_denied=True,
        )

    return listening
