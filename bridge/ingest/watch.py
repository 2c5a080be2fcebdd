"""Watch folders: detect which new files and locations are complete.

A file is complete if it has not been written to for a moment and has the length in its header; a file renamed into
place is taken at once. Any other file is tried after some seconds without writes, so that it can be reported. A chunked
episode is complete when its manifest says so, or when no chunk has arrived for a minute.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from bridge.episodes.discover import discover, entries_below, is_episode, matched
from bridge.episodes.files import files_of, is_complete, is_unfinished, locate, state_of, whole_of
from bridge.episodes.read import Failure
from bridge.ingest.register import find_unseen
from bridge.ingest.report import IngestReport
from bridge.support.interrupts import raise_interrupt
from wshard.episode.protocol import EpisodeAddress
from wshard.errors import CatalogError, IngestError, MissingExtraError, SourceNotFoundError
from wshard.formats.base import load_matchers
from wshard.messages import how_to_install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from bridge.episodes.discover import Matchers
    from bridge.episodes.files import State
    from catalog.catalog import Catalog

    Ingest = Callable[[Sequence[str]], IngestReport]
    Listen = Callable[[Sequence[str], Event], Iterator[Iterable[tuple[object, str]]]]

_STEP_MS: Final = 50  # events that follow one another so closely are one
_TICK_MS: Final = 250  # between two checks of files that may be complete
_STILL_S: Final = 0.2  # a complete file is left alone for so long
_SETTLED_S: Final = 2.0  # any other one
_GROWING_S: Final = 60.0  # an incomplete one: a manifest that says so, a chunk without a manifest
_LOOK_AGAIN_S: Final = 300.0  # events get lost on network drives, and if there are too many
_WAIT_S: Final = 2.0  # after an error, doubled up to
_WAIT_LONGEST_S: Final = 60.0

_WAITS: Final = "new files wait and are retried"

_WORTH_REPORTING: Final = ("new", "changed", "moved", "embedded", "tasks")


@dataclass
class Arrivals:
    """Files and locations that may be complete soon, and those that failed in their current state."""

    waiting: dict[str, tuple[State, float]] = field(default_factory=dict)
    refused: dict[str, State] = field(default_factory=dict)

    def note(self, path: str) -> None:
        """Something happened to this file or location."""
        path = whole_of(path)
        if path in self.waiting:
            return  # ready() sees what changes
        state = state_of(path)
        if state is not None and self.refused.get(path) != state:
            self.waiting[path] = (state, time.monotonic())

    def ready(self) -> list[str]:
        """Return the files and locations that seem to be finished, by path."""
        found = []
        for path in sorted(self.waiting):
            before, since = self.waiting[path]
            state, still = state_of(path), time.monotonic() - since
            if state is None or whole_of(path) != path:  # a manifest that comes is noted by itself
                del self.waiting[path]
            elif state != before:
                self.waiting[path] = (state, time.monotonic())
            elif still >= _STILL_S and still >= _stillness_of(path):
                found.append(path)
        return found

    def finish(self, paths: Iterable[str], report: IngestReport) -> None:
        """Wait for these files no longer; of the failures in the report leave those that were not reported before."""
        tried = {path: self.waiting.pop(path)[0] for path in paths if path in self.waiting}
        fresh = []
        for failure in report.failed:
            state = tried.get(failure.path) or state_of(failure.path)  # retry what has changed
            if state is None or self.refused.get(failure.path) != state:
                fresh.append(failure)
            if state is not None:
                self.refused[failure.path] = state
        report.failed = fresh


def _stillness_of(path: str) -> float:
    """Return for how many seconds a file or location must have been left alone."""
    if is_unfinished(path):
        return _GROWING_S
    return _STILL_S if all(map(is_complete, files_of(path))) else _SETTLED_S


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
        archive.catalog.episodes.add_root(place)
    return _batches(archive, ingest, _arriving(archive, listen, places, stop or Event()))


def _batches(archive: Archive, ingest: Ingest, ticks: Iterator[Iterable[str]]) -> Iterator[IngestReport]:
    arrivals, wait = Arrivals(), _WAIT_S
    hold = due = 0.0  # earliest time of an attempt, and time of a retry without events
    for changed in ticks:
        for path in changed:
            arrivals.note(path)
        files, now = arrivals.ready(), time.monotonic()
        if now < hold or not (files or now >= due):
            continue
        try:
            report = ingest(files)
            arrivals.finish(files, report)
            well = report.delayed is None
        except SourceNotFoundError:  # one of them went just now: without it they are tried again
            continue
        except Exception as error:  # noqa: BLE001  (reported, and tried again)
            raise_interrupt(error)
            failure = Failure.of(error, EpisodeAddress(archive.place.name))
            report = IngestReport(failed=[replace(failure, error=f"{failure.error}; {_WAITS}", cause=None)])
            well = False
        hold, wait = (0.0, _WAIT_S) if well else (now + wait, min(2 * wait, _WAIT_LONGEST_S))
        due = math.inf if well else hold
        if not well or report.failed or any(getattr(report, name) for name in _WORTH_REPORTING):
            yield report


def _arriving(archive: Archive, listen: Listen, places: Sequence[str], stop: Event) -> Iterator[Iterable[str]]:
    """Yield, a few times a second, the files that something happened to; at first and now and then all new ones."""
    listened, matchers = False, load_matchers()
    while not stop.is_set():
        there = [place for place in places if Path(place).is_dir()]
        try:
            events = listen(there, stop) if there else iter(())
            first = next(events, ())  # from here on no event is missed
            listened = True
            yield [*_files(first, places, matchers), *_unknown(archive.catalog, there)]
            until = time.monotonic() + _LOOK_AGAIN_S
            for found in events:
                yield _files(found, places, matchers)
                if time.monotonic() > until:
                    break
        except (OSError, RuntimeError) as error:  # the second is what watchfiles raises for its own troubles
            if not listened:
                raise IngestError(f"cannot watch {', '.join(places)}: {error}") from error
            there = []
        if not there:
            stop.wait(_WAIT_S)


def _files(events: Iterable[tuple[object, str]], places: Sequence[str], matchers: Matchers) -> Iterator[str]:
    """Yield the episode files and locations of events; a folder that came brings what is in it."""
    for _, path in events:
        place = next((place for place in places if path.startswith(f"{place}/")), "")
        if any(part.startswith(".") for part in path[len(place) :].split("/")):
            continue
        if Path(path).is_dir():
            yield from _below(path, matchers)
        elif is_episode(Path(path).name):
            yield locate(path)
        else:  # a location, or a file of one, which may be missing
            above = (parent.as_posix() for parent in Path(path).parents)
            around = (path, *(folder for folder in above if f"{folder}/".startswith(f"{place}/")))
            yield from (locate(one) for one in around if matched(one, matchers, {}) is not None)


def _below(folder: str, matchers: Matchers) -> Iterator[str]:
    for path, name in entries_below(folder, [], matchers):
        if name is not None:
            yield locate(path)


def _unknown(catalog: Catalog, places: Sequence[str]) -> list[str]:
    """Return the files and locations in these folders that are new or changed."""
    found = discover(places, may_be_gone=True, remembered=catalog.episodes.read_as)
    try:
        fresh = find_unseen(catalog, found.episodes)
    except CatalogError:  # ingest reports it
        fresh = [*found.episodes]
    return [*dict.fromkeys(one.address.uri for one in fresh)]


def _listener() -> Listen:
    try:
        from watchfiles import watch as listen  # noqa: PLC0415  (only watching needs it)
    except ImportError as error:
        raise MissingExtraError(f"watching needs watchfiles: {how_to_install('watch')}") from error

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
