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

from bridge.episodes.discover import discover
from bridge.episodes.files import is_complete, is_unfinished, state_of, whole_of
from bridge.episodes.locations import EarlierReadings
from bridge.episodes.read import Failure
from bridge.ingest.register import find_new_or_changed
from bridge.ingest.report import IngestReport
from bridge.support.interrupts import raise_interrupt
from wshard.core.chunks.files import files_of, is_episode, locate
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.messages import how_to_install
from wshard.errors import CatalogError, IngestError, MissingExtraError, SourceNotFoundError
from wshard.formats.base import load_matchers
from wshard.formats.below import entries_below, matched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from bridge.episodes.files import State
    from catalog.catalog import Catalog
    from wshard.formats.base import Matchers

    Ingest = Callable[[Sequence[str]], IngestReport]
    Listen = Callable[[Sequence[str], Event], Iterator[Iterable[tuple[object, str]]]]

_STEP_MS: Final = 50  # events within this time are merged
_TICK_MS: Final = 250  # between two checks of files that may be complete
_STILL_S: Final = 0.2  # without writes, for a complete file
_SETTLED_S: Final = 2.0  # for any other file
_GROWING_S: Final = 60.0  # an incomplete one: a manifest that says so, a chunk without a manifest
_LOOK_AGAIN_S: Final = 300.0  # between two full scans: events get lost on network drives, and if there are too many
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
        """Record an event for this file or location."""
        path = whole_of(path)
        if path in self.waiting:
            return  # ready() detects changes
        state = state_of(path)
        if state is not None and self.refused.get(path) != state:
            self.waiting[path] = (state, time.monotonic())

    def ready(self) -> list[str]:
        """Return the files and locations that seem to be finished, by path."""
        finished = []
        for path in sorted(self.waiting):
            previous, since = self.waiting[path]
            state, quiet_s = state_of(path), time.monotonic() - since
            if state is None or whole_of(path) != path:  # its manifest is noted separately
                del self.waiting[path]
            elif state != previous:
                self.waiting[path] = (state, time.monotonic())
            elif quiet_s >= _STILL_S and quiet_s >= _stillness_of(path):
                finished.append(path)
        return finished

    def finish(self, paths: Iterable[str], report: IngestReport) -> None:
        """Stop waiting for these files; remove failures from the report that were reported before."""
        tried = {path: self.waiting.pop(path)[0] for path in paths if path in self.waiting}
        new_failures = []
        for failure in report.failed:
            state = tried.get(failure.path) or state_of(failure.path)  # retry what has changed
            if state is None or self.refused.get(failure.path) != state:
                new_failures.append(failure)
            if state is not None and not isinstance(failure.cause, BlockingIOError):  # closing need not change it
                self.refused[failure.path] = state
        report.failed = new_failures


def _stillness_of(path: str) -> float:
    """Return the seconds without writes after which a file or location counts as finished."""
    if is_unfinished(path):
        return _GROWING_S
    return _STILL_S if all(map(is_complete, files_of(path))) else _SETTLED_S


def _was_removed(failure: Failure) -> bool:
    """Return whether a file failed since it has just been removed."""
    return isinstance(failure.cause, SourceNotFoundError) and not os.path.lexists(failure.path)


def watch(
    archive: Archive, ingest: Ingest, folders: Sequence[str | os.PathLike[str]], stop: Event | None
) -> Iterator[IngestReport]:
    """Yield a report per batch: first for unfinished work of earlier runs, then for existing and new files."""
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
    not_before = retry_at = 0.0  # earliest time of an attempt, and time of a retry without events
    for changed in ticks:
        for path in changed:
            arrivals.note(path)
        files, now = arrivals.ready(), time.monotonic()
        if now < not_before or not (files or now >= retry_at):
            continue
        try:
            report = ingest(files)
            report.failed = [one for one in report.failed if not _was_removed(one)]
            arrivals.finish(files, report)
            succeeded = report.delayed is None
        except SourceNotFoundError:  # a file has just been removed: retry without it
            continue
        except Exception as error:  # noqa: BLE001  (reported, and tried again)
            raise_interrupt(error)
            failure = Failure.of(error, EpisodeAddress(archive.place.name))
            report = IngestReport(failed=[replace(failure, error=f"{failure.error}; {_WAITS}", cause=None)])
            succeeded = False
        not_before, wait = (0.0, _WAIT_S) if succeeded else (now + wait, min(2 * wait, _WAIT_LONGEST_S))
        retry_at = math.inf if succeeded else not_before
        if not succeeded or report.failed or any(getattr(report, name) for name in _WORTH_REPORTING):
            yield report


def _arriving(archive: Archive, listen: Listen, places: Sequence[str], stop: Event) -> Iterator[Iterable[str]]:
    """Yield the files with events, a few times a second; at first and every few minutes all new files."""
    has_listened, matchers = False, load_matchers()
    while not stop.is_set():
        existing = [place for place in places if Path(place).is_dir()]
        try:
            events = listen(existing, stop) if existing else iter(())
            first = next(events, ())  # from here on no event is missed
            has_listened = True
            yield [*_files(first, places, matchers), *_unknown(archive.catalog, existing)]
            next_scan = time.monotonic() + _LOOK_AGAIN_S
            for batch in events:
                yield _files(batch, places, matchers)
                if time.monotonic() > next_scan:
                    break
        except (OSError, RuntimeError) as error:  # watchfiles raises RuntimeError
            if not has_listened:
                raise IngestError(f"cannot watch {', '.join(places)}: {error}") from error
            existing = []
        if not existing:
            stop.wait(_WAIT_S)


def _files(events: Iterable[tuple[object, str]], places: Sequence[str], matchers: Matchers) -> Iterator[str]:
    """Yield the episode files and locations of events; for a new folder, those in it."""
    for _, path in events:
        place = next((place for place in places if path.startswith(f"{place}/")), "")
        if any(part.startswith(".") for part in path[len(place) :].split("/")):
            continue
        if Path(path).is_dir():
            yield from _below(path)
        elif is_episode(Path(path).name):
            yield locate(path)
        else:  # a location, or a file of one, which may be missing
            above = (parent.as_posix() for parent in Path(path).parents)
            folders = [folder for folder in above if f"{folder}/".startswith(f"{place}/")]
            found = {folder: matcher for folder in folders if (matcher := matched(folder, matchers)) is not None}
            yield from map(locate, found)
            in_location = folders[:1] == [*found][:1] or any(matcher.whole for matcher in found.values())
            if not in_location and matched(path, matchers) is not None:
                yield locate(path)


def _below(folder: str) -> Iterator[str]:
    for path, name in entries_below(folder, {}):
        if name is not None:
            yield locate(path)


def _unknown(catalog: Catalog, places: Sequence[str]) -> list[str]:
    """Return the files and locations in these folders that are new or changed."""
    discovery = discover(places, may_be_gone=True, earlier=EarlierReadings(catalog))
    try:
        unseen = find_new_or_changed(catalog, discovery.episodes)
    except CatalogError:  # ingest reports it
        unseen = [*discovery.episodes]
    return [*dict.fromkeys(episode.address.uri for episode in unseen)]


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
