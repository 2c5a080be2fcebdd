"""List the episodes to convert, and keep their locations open."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from wshard.core.chunks.files import locate, without_chunks
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress, EpisodeSpan, parse_read_as, read_as
from wshard.core.files.schemes import place_of
from wshard.errors import AmbiguousFormatError, FormatError, StaleEpisodeError, WShardError
from wshard.formats.below import entries_below
from wshard.formats.detect import detect_format
from wshard.formats.lane_map import MappedSource
from wshard.formats.open import guess_format, guess_formats, open_location
from wshard.formats.wshard import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wshard.formats.source_base import SourceBase

    Remembered: TypeAlias = Callable[[Sequence[str]], Mapping[str, str]]

_MAX_OPEN: Final = 16


@dataclass(frozen=True)
class ConversionJob:
    """One episode to convert, or a span of one; prefix: prepended to its id.

    written_as: the id that it got because the target had another episode of its own id; "" if it has its own.
    """

    span: EpisodeSpan
    prefix: str = ""
    written_as: str = ""

    def name_of(self, id_: str) -> str:
        """Return the id of the converted episode: prefix, id, and for a span its bounds."""
        start, stop = self.span.start, self.span.stop
        return f"{self.prefix}{id_}" if (start, stop) == (0, None) else f"{self.prefix}{id_}-{start}-{stop}"


def list_ids(job: ConversionJob, id_: str) -> Iterator[str]:
    """Yield the ids for an episode to convert: its own, then others that begin with the name of its location."""
    yield job.name_of(id_)
    name = job.name_of(id_) if job.prefix else f"{_prefix(job.span)}{job.name_of(id_)}"
    if not job.prefix:
        yield name
    yield from (f"{name}-{number}" for number in count(2))


def list_jobs(
    locations: Iterable[str | os.PathLike[str] | EpisodeAddress | EpisodeSpan],
    read_as: str = "",
    *,
    remembered: Remembered | None = None,
    unread: dict[str, str] | None = None,
) -> list[ConversionJob]:
    """Return a job for each episode of the locations: paths or URIs, addresses `PATH#KEY`, spans `PATH#KEY@START:STOP`.

    A folder that is no location but has some of other formats below it stands for all that is below. read_as: reading
    options for locations without their own; see EpisodeAddress. remembered: returns those of the others that are known,
    by their absolute paths. unread: takes why files below folders are not read, by path. With several locations of
    several episodes, ids begin with the name of the location; ids of spans end with their bounds. What is read by a
    guess is said as find_reading does. A location that cannot be opened becomes a job that fails; if none of those that
    are named can, the errors of open_location are raised, but for EpisodeSpans, as those of a catalog.
    """
    spans, named, errors = list[EpisodeSpan](), [*locations], list[Exception]()
    for location in named:
        span = _span_of(location)
        uri = span.address.uri
        how = span.address.read_as or read_as or _remember(remembered, [uri]).get(uri, "")
        address = replace(span.address, read_as=how)
        try:
            address = replace(address, read_as=how or guess_format(uri))
            below = [] if address.key else locations_below(address, remembered, unread)
            found = _list_below(below) if below else _list_keys(address)
        except (OSError, WShardError) as error:
            errors.append(error)
            found = [address]  # opening it fails alone
        spans += [replace(span, address=one) for one in found]
    if errors and len(errors) == len(named) and not isinstance(named[0], EpisodeSpan):
        raise errors[0]
    needs_prefix = len({span.address.uri for span in spans if span.address.key}) > 1
    return [ConversionJob(span, _prefix(span) if needs_prefix and span.address.key else "") for span in spans]


def _list_keys(address: EpisodeAddress) -> list[EpisodeAddress]:
    """Return the addresses of all episodes of a location, or the one that an address names; raises as open_location."""
    if address.key:
        return [address]
    with open_for_conversion(address) as source:
        return [replace(address, key=key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)


def _list_below(locations: Iterable[EpisodeAddress]) -> list[EpisodeAddress]:
    """Return the addresses of all episodes of many locations; one that cannot be opened stays, and fails alone."""
    found: list[EpisodeAddress] = []
    for address in locations:
        try:
            found += _list_keys(address)
        except (OSError, WShardError):
            found.append(address)
    return found


def locations_below(
    address: EpisodeAddress, remembered: Remembered | None = None, unread: dict[str, str] | None = None
) -> list[EpisodeAddress]:
    """Return the locations and episode files below a folder that is no location; none if all are this project's files.

    They are those that an ingest of the folder would find, and those that cannot be listed or fit several formats:
    opening these fails. remembered, unread: as in list_jobs. A GuessWarning says which are read by a guess, and which
    are not read since none is sure.
    """
    place = place_of(address.uri)
    name, lane_map = parse_read_as(address.read_as)
    if name or address.key or not place.is_dir() or detect_format(place):
        return []
    failed: dict[str, OSError] = {}
    ambiguous: dict[str, AmbiguousFormatError] = {}
    files = [*entries_below(place.uri, failed, ambiguous)]
    unclear = tuple(f"{path}/" for path in ambiguous)  # folders, whose files would be read one by one
    files = [(path, kind) for path, kind in files if not path.startswith(unclear)]
    known = _remember(remembered, [*ambiguous, *(path for path, _ in files)])
    guessed = guess_formats([path for path, kind in files if kind is None and path not in known], unread)
    found = {path: kind or guessed.get(path) for path, kind in files if kind or path in known or path in guessed}
    if place.uri in failed:
        raise failed[place.uri]
    if not failed and not ambiguous and not known and not {*found.values()} - {OWN_FORMAT}:
        return []
    found |= dict.fromkeys([*failed, *ambiguous])  # of these, known ones can be opened
    whole = {*without_chunks([path for path, kind in found.items() if kind == OWN_FORMAT])}
    return [
        EpisodeAddress(path, read_as=known.get(path) or read_as(kind or "", lane_map))
        for path, kind in found.items()
        if kind != OWN_FORMAT or path in whole
    ]


def _remember(remembered: Remembered | None, paths: Sequence[str]) -> dict[str, str]:
    """Return how the known ones of these locations are read; no text for plain files of this project."""
    located = {} if remembered is None else {path: locate(path) for path in paths}
    known = remembered([*located.values()]) if remembered is not None and located else {}
    return {path: how for path, place in located.items() if (how := known.get(place))}


def _span_of(location: str | os.PathLike[str] | EpisodeAddress | EpisodeSpan) -> EpisodeSpan:
    if isinstance(location, EpisodeSpan):
        return location
    return EpisodeSpan(location) if isinstance(location, EpisodeAddress) else EpisodeSpan.parse(os.fspath(location))


def _prefix(span: EpisodeSpan) -> str:
    return f"{Path(span.address.uri).stem}-"


def open_for_conversion(address: EpisodeAddress) -> SourceBase:
    """Open a location; a folder of episode files counts as one location here, unlike in format detection."""
    place = place_of(address.uri)
    name, lane_map = parse_read_as(address.read_as)
    if not name and place.is_dir() and not detect_format(place):
        has_wshard_files = any(file.suffix in SUFFIXES for file in place.walk())
        return open_location(place, (read_as("wshard", lane_map) or "wshard") if has_wshard_files else None)
    return open_location(address.uri, address.read_as or None)


def failure_of(error: Exception, address: EpisodeAddress) -> WShardError:
    """Return the error of an episode that cannot be read: as it is, or as the cause of one that names the episode."""
    if isinstance(error, WShardError):
        return error
    failure = FormatError(f"{address}: {name_error(error, address.uri)}")
    failure.__cause__ = error
    return failure


def name_error(error: Exception, path: str = "") -> str:
    """Return what is wrong; of the file at `path` alone, which is named beside it, what the system says."""
    if isinstance(error, OSError) and error.strerror and path and error.filename == path:
        return error.strerror
    return f"expected an episode that can be read and written, found {type(error).__name__}: {error}"


def check_unchanged(span: EpisodeSpan, source: SourceBase) -> None:
    """Raise StaleEpisodeError if a span is of other data than its location has by now; source: what reads it."""
    if not span.digest or source.fingerprint(span.address.key) == span.fingerprint:
        return
    with open_for_conversion(span.address) as whole, whole.open(span.address.key) as reader:  # with all lanes
        if reader.digest() != span.digest:
            raise StaleEpisodeError.at(span.address, span.address.uri)


class OpenSources:
    """A cache of open Sources, one per location; above 16, the one opened first is closed.

    without: lanes left out. lane_map: new names of lanes by those that the address gives them; see MappedSource.
    """

    def __init__(self, without: Sequence[str] = (), *, lane_map: str = "") -> None:
        self._sources: dict[tuple[str, str], SourceBase] = {}
        self._without, self._lane_map = without, lane_map

    def source_of(self, address: EpisodeAddress) -> SourceBase:
        """Return the Source of an address, without some lanes; raises what open_location raises."""
        source = self.whole_source_of(address)
        return MappedSource(source, "", without=self._without) if self._without else source

    def whole_source_of(self, address: EpisodeAddress) -> SourceBase:
        """Return the Source of an address with all lanes; raises what open_location raises."""
        cache_key = address.uri, address.read_as
        if cache_key not in self._sources:
            if len(self._sources) >= _MAX_OPEN:
                self._sources.pop(next(iter(self._sources))).close()
            source = open_for_conversion(address)
            self._sources[cache_key] = MappedSource(source, self._lane_map) if self._lane_map else source
        return self._sources[cache_key]

    def close(self) -> None:
        """Close all Sources."""
        while self._sources:
            self._sources.popitem()[1].close()
