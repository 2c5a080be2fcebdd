"""List the episodes to convert, and keep their locations open."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.core.episode.protocol import EpisodeAddress, EpisodeSpan, parse_read_as, read_as
from wshard.core.files.schemes import place_of
from wshard.formats.detect import detect_format
from wshard.formats.open import open_location
from wshard.formats.wshard import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wshard.formats.source_base import SourceBase

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
    locations: Iterable[str | os.PathLike[str] | EpisodeAddress | EpisodeSpan], read_as: str = ""
) -> list[ConversionJob]:
    """Return a job for each episode of the locations: paths or URIs, addresses `PATH#KEY`, spans `PATH#KEY@START:STOP`.

    read_as: reading options for locations without their own; see EpisodeAddress. With several locations of several
    episodes, ids begin with the name of the location; ids of spans end with their bounds. Raises the errors of
    open_location.
    """
    spans: list[EpisodeSpan] = []
    for location in locations:
        span = _span_of(location)
        address = replace(span.address, read_as=span.address.read_as or read_as)
        if address.key:
            spans.append(replace(span, address=address))
        else:
            with open_for_conversion(address) as source:
                keys = source.keys()
            spans += [replace(span, address=replace(address, key=key)) for key in keys]
    needs_prefix = len({span.address.uri for span in spans if span.address.key}) > 1
    return [ConversionJob(span, _prefix(span) if needs_prefix and span.address.key else "") for span in spans]


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


class OpenSources:
    """A cache of open Sources, one per location; above 16, the one opened first is closed."""

    def __init__(self) -> None:
        self._sources: dict[tuple[str, str], SourceBase] = {}

    def source_of(self, address: EpisodeAddress) -> SourceBase:
        """Return the Source of an address; raises what open_location raises."""
        cache_key = address.uri, address.read_as
        if cache_key not in self._sources:
            if len(self._sources) >= _MAX_OPEN:
                self._sources.pop(next(iter(self._sources))).close()
            self._sources[cache_key] = open_for_conversion(address)
        return self._sources[cache_key]

    def close(self) -> None:
        """Close all Sources."""
        while self._sources:
            self._sources.popitem()[1].close()
