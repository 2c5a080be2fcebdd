"""Addresses and fingerprints of episodes, and the protocol that every open episode follows."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, runtime_checkable

from wshard.core.files.schemes import place_of
from wshard.errors import StepError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wshard.core.episode.lane_view import LazyLane
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array, Episode, TimebaseSpec

MANIFEST: Final = "manifest"
CHUNK: Final = "chunk"
OWN_FORMAT: Final = "wshard"
ARCHIVE_DATABASE: Final = "catalog.db"
"""A folder with this file is an archive."""

_SPAN: Final = re.compile(r"(.*)@(-?\d*):(-?\d*)", re.DOTALL)


# ---- addresses -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EpisodeAddress:
    """The address of an episode. The text form is `PATH#KEY`, or `PATH` without a key.

    Args:
        uri: URI or path of a location.
        key: The episode in it, "" for a location with one episode.
        read_as: How to read the location, if detection does not determine it: see read_as(); no part of the identity.

    Examples:
        >>> str(EpisodeAddress("demos.hdf5", "demo_2"))
        'demos.hdf5#demo_2'
    """

    uri: str
    key: str = ""
    read_as: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.uri}#{self.key}" if self.key else self.uri

    @classmethod
    def parse(cls, text: str) -> EpisodeAddress:
        """Parse `PATH#KEY`.

        File names and keys may contain `#`: the longest prefix that exists as a path is the path. If none exists, and
        in a URI with a scheme, the first `#` ends the path.
        """
        hash_positions = [match.start() for match in re.finditer("#", text)]
        for end in reversed([*hash_positions, len(text)] if hash_positions else []):
            if os.path.exists(text[:end]):  # noqa: PTH110  (Path.exists can raise)
                return cls(text[:end], text[end + 1 :])
        uri, _, key = text.partition("#")
        return cls(uri, key)


@lru_cache(maxsize=256)
def read_as(format_name: str, lane_map: str = "") -> str:
    """Return the reading options of a location as text: "" for plain episode files of this project.

    format_name: "" to detect it. lane_map: see wshard/formats/lane_map.py.
    """
    return "" if format_name == OWN_FORMAT and not lane_map else f"{format_name};{lane_map}".rstrip(";")


def parse_read_as(text: str) -> tuple[str, str]:
    """Return (format name, lane map) of what read_as returns."""
    name, _, lane_map = text.partition(";")
    return name, lane_map


@dataclass(frozen=True)
class EpisodeSpan:
    """Timesteps [start, stop) of the episode at an address; stop: None for its end.

    digest, fingerprint: of the data that are meant, as a catalog has them; no digest: whatever is there.
    """

    address: EpisodeAddress
    start: int = 0
    stop: int | None = None
    digest: str = ""
    fingerprint: Fingerprint | None = None

    @classmethod
    def parse(cls, text: str) -> EpisodeSpan:
        """Parse `PATH#KEY@START:STOP`; key and span are optional, and so is either side of the span.

        Text that exists as a path is a path, whatever characters it contains. Raises StepError for negative timesteps.
        """
        match = None if os.path.exists(text) else _SPAN.fullmatch(text)  # noqa: PTH110  (as above)
        if match is None:
            return cls(EpisodeAddress.parse(text))
        start, stop = match[2], match[3]
        if "-" in start + stop:
            raise StepError(f"{text}: expected timesteps of 0 or more, counted from the first, either may be omitted")
        return cls(EpisodeAddress.parse(match[1]), int(start or 0), int(stop) if stop else None)


@dataclass(frozen=True)
class Fingerprint:
    """Detects that an episode may have changed, without reading it: size in bytes, modification time in ns."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, file: Location, *other_files: Location) -> Fingerprint:
        """Return the fingerprint of a file, or of several: the sum of their sizes, and the newest time.

        Raises FileNotFoundError for the first one; others that are missing do not count.
        """
        states = [place_of(file).status()]
        if not other_files:  # asked for every episode
            return cls(*states[0][:2])
        for other_file in other_files:
            with suppress(FileNotFoundError):
                states.append(place_of(other_file).status())
        return cls(sum(state.size for state in states), max(state.mtime_ns for state in states))


@dataclass(frozen=True)
class Part:
    """One of the files of an episode: its role (MANIFEST or CHUNK) and location."""

    role: str
    place: Place


# ---- open episodes -------------------------------------------------------------------------------------------------


class StoredLane(NamedTuple):
    """How a lane is stored: codec (none, zstd, lz4, unknown; mixed), decoded bytes, stored bytes; None if unknown."""

    codec: str
    bytes: int
    stored: int | None


@runtime_checkable
class EpisodeReader(Protocol):
    """An open episode: its description is available, lanes are read on demand. Use it as a context manager.

    Names of lanes are block names ("signal/state", "action/ctrl", "reward") or ids of observations ("state"). Readers
    that derive from it inherit what follows from the rest; wshard/formats/contract has the tests that all of them pass.

    Examples:
        >>> with open_episode("episodes/circle-02.wshard") as episode:
        ...     isinstance(episode, EpisodeReader), list(episode)[:2]
        (True, ['signal/state', 'signal/camera'])
    """

    where: str
    """Name in messages: a path, or an address."""

    @property
    def id(self) -> str:
        """The episode id; need not be unique."""

    @property
    def env_id(self) -> str:
        """The environment id, "" if unknown."""

    @property
    def length(self) -> int:
        """T, the number of timesteps."""

    @property
    def timebase(self) -> TimebaseSpec:
        """The episode's clock."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Free metadata, JSON values."""

    @property
    def is_chunk(self) -> bool:
        """True if this is one chunk of a longer episode."""
        return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.where!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the data: further reads raise ClosedError; arrays returned earlier stay valid."""

    def __iter__(self) -> Iterator[str]:
        """Yield the block names of its lanes."""
        return iter(self.lanes())

    def __contains__(self, name: object) -> bool:
        """Return True for what self[name] takes: the block name of a lane, or an observation's id."""
        lanes = self.lanes()
        return name in lanes or f"signal/{name}" in lanes

    def __getitem__(self, name: str) -> LazyLane:
        """Return lane_view(name)."""
        return self.lane_view(name)

    def lanes(self) -> dict[str, Declaration]:
        """Return dtype and per-step shape of every lane by block name."""

    def has(self, block: str) -> bool:
        """Return True if the lane was recorded (a filled-in reward or done does not count)."""

    def lane(self, name: str) -> Array:
        """Return a lane as an array [T, *shape]; raises EntryNotFoundError, and errors of damaged data."""

    def lane_view(self, name: str, *, verify: bool = False) -> LazyLane:
        """Return a lane that reads only the requested timesteps; verify: verify checksums first."""

    def encoded(self, name: str) -> EncodedFrames | None:
        """Return a lane's camera frames as stored, None for a numeric lane."""

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Return the Episode with all lanes, or with the named channels (see load_wshard)."""

    def slice(self, start: int, stop: int, channels: Sequence[str] | None = None) -> Episode:
        """Return the timesteps [start, stop) as an Episode; StepError unless 0 <= start < stop <= T."""

    def total_reward(self) -> float | None:
        """Return the sum of rewards in float64, None if none were recorded."""

    def digest(self) -> str:
        """Return the content digest: equal for equal data, whatever their location."""

    def stored(self, block: str) -> StoredLane:
        """Return how a lane is stored; raises EntryNotFoundError."""

    def parts(self) -> tuple[Part, ...]:
        """Return the files of the episode if a manifest lists them, else none."""
        return ()

    def part_digests(self) -> tuple[str, ...]:
        """Return the content digest of each part."""
        return ()

    def verify(self) -> None:
        """Compare all data with their checksums; raises the first error."""
