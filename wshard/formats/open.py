"""Open episodes by address: the URI scheme and the format of the location determine the reader."""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING

from wshard.core.chunks.reader import open_episode_file
from wshard.core.episode.protocol import EpisodeAddress, Fingerprint, parse_read_as, read_as
from wshard.core.files.file_object import OpenFilePlace
from wshard.core.files.place import Place
from wshard.core.files.schemes import place_of
from wshard.core.made_sequence import MadeSequence
from wshard.core.types import Format
from wshard.errors import FormatError, MissingFileError
from wshard.formats.base import open_source
from wshard.formats.detect import detect_format, format_of, known_format
from wshard.formats.lane_map import MappedSource
from wshard.formats.table import OTHER_ARRAYS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from wshard.core.episode.protocol import EpisodeReader
    from wshard.core.files.schemes import Location
    from wshard.formats.source_base import SourceBase


def find_reading(location: Location) -> str:
    """Return how a location, or an open file, is read: its format or layout by its contents, else that of a guess.

    A GuessWarning says that it is a guess, and which. Raises FormatError for what nothing reads, MissingFileError, one
    too, for what is not there, and LayoutError where the guess leaves something open.
    """
    place = place_of(location)
    name = format_of(place)
    how = guess_format(place, name) or name
    if not (how or isinstance(place, OpenFilePlace) or place.exists()):
        raise MissingFileError(f"{place}: Unknown format: no such file or folder")
    return known_format(None, how, place)


def guess_format(location: Location, detected: str | None = None) -> str:
    """Return how a file is read by a guess, "" for what has a format, and for files of which no guess is made.

    The guess is that of an ingest. detected: what detect_format returns, where it is known. Warns and raises as
    find_reading.
    """
    place = place_of(location)
    name = detect_format(place) if detected is None else detected
    if name not in ("", OTHER_ARRAYS) or isinstance(place, OpenFilePlace) or not place.is_file():
        return ""
    from wshard.formats.layouts.guessing import reference  # noqa: PLC0415  (of what has a format, none is made)

    if not reference.can_guess(place.name):
        return ""
    found = reference.guess_reading(place, is_given=True).expect()
    reference.warn_of_guesses({str(location): found})
    return found


def guess_formats(paths: Sequence[str], unread: dict[str, str] | None = None) -> dict[str, str]:
    """Return how files of a folder that have no format are read by a guess, which a warning says; see find_reading.

    unread: takes why others are not read, by path, which a warning says, too.
    """
    if not paths:
        return {}
    from wshard.formats.layouts.guessing import reference  # noqa: PLC0415  (as above)

    return reference.guess_readings(paths, {} if unread is None else unread)


def open_episode(
    place: Location | EpisodeAddress, *, hashed: bool = True, format_name: str | None = None
) -> EpisodeReader:
    """Open an episode lazily: a file, a manifest of chunks, or an address, `PATH#KEY` as text.

    hashed: compare each chunk with its SHA-256 before its data is used, which reads all of it; the checksums of blocks
    are verified in any case. format_name: as in open_location; an address may specify it itself. For many episodes of
    one location, open it once and call `open` of the Source.

    Raises FormatError and its subclasses (ManifestError if chunks are inconsistent), FileNotFoundError,
    EntryNotFoundError for an unknown key, UnknownSchemeError, and the errors of the format.

    Examples:
        >>> with open_episode("episodes/circle-02.wshard") as episode:
        ...     episode.length, episode["state"][10:20].shape
        (118, (10, 6))
    """
    if isinstance(place, str):
        address = EpisodeAddress.parse(place)
    elif isinstance(place, EpisodeAddress):
        address = place
    elif isinstance(place, (os.PathLike, Place)):
        address = EpisodeAddress(str(place))
    else:  # a file object; of anything else it says that it is none
        return open_episode_file(place, hashed=hashed)
    found = place_of(address.uri)
    how = read_as(format_name) if format_name else address.read_as or detect_format(found)
    if not address.key and how == Format.WSHARD:
        return open_episode_file(found, hashed=hashed)
    with open_location(address.uri, None if how == OTHER_ARRAYS else how) as source:
        return source.open(address.key)


def open_location(uri: str | os.PathLike[str] | Place, format_name: str | None = None) -> SourceBase:
    """Open a location of one or several episodes: a file, or a folder that a format detects as a whole.

    format_name: as in open_source, or the `read_as` of an address; by default as find_reading says. The Source may be
    reused: it shows the location as it was when it was opened. A folder of episode files is several locations. Raises
    UnknownFormatError, FileNotFoundError, UnknownSchemeError, what find_reading raises, and the errors of the format.
    """
    place = place_of(uri)
    name, lane_map = parse_read_as(format_name or "")
    if not name:
        place.status()  # raises an error before a format is looked for
    source = open_source(place, name or find_reading(place))
    return MappedSource(source, lane_map) if lane_map else source


class LocationEpisodes(MadeSequence[tuple[EpisodeAddress, Fingerprint]]):
    """The episodes of one location: their addresses with fingerprints, as bytes of keys and numbers in arrays.

    companions: paths of other files of theirs, as a Source returns them.
    """

    def __init__(self, uri: str, read_as: str) -> None:
        self._uri, self._read_as = uri, read_as
        self.is_whole, self.companions = True, set[str]()
        self._keys = bytearray()
        self._stops = array("q", [0])  # of keys
        self._sizes, self._times = array("q"), array("q")

    def add(self, key: str, fingerprint: Fingerprint) -> None:
        """Add an episode."""
        self._keys += key.encode(errors="surrogatepass")
        self._stops.append(len(self._keys))
        self._sizes.append(fingerprint.size)
        self._times.append(fingerprint.mtime_ns)

    def of_keys(self, keys: Collection[str]) -> LocationEpisodes:
        """Return those of these keys."""
        chosen = LocationEpisodes(self._uri, self._read_as)
        chosen.is_whole = False
        for address, fingerprint in self:
            if address.key in keys:
                chosen.add(address.key, fingerprint)
        return chosen

    def __len__(self) -> int:
        return len(self._sizes)

    def make(self, number: int) -> tuple[EpisodeAddress, Fingerprint]:
        """Return address and fingerprint of an episode."""
        key = self._keys[self._stops[number] : self._stops[number + 1]].decode(errors="surrogatepass")
        return EpisodeAddress(self._uri, key, self._read_as), Fingerprint(self._sizes[number], self._times[number])


def list_episodes(
    uri: str | os.PathLike[str] | Place,
    format_name: str | None = None,
    *,
    missing: dict[str, MissingFileError] | None = None,
) -> LocationEpisodes:
    """Return the address of every episode of a location, with a fingerprint that changes when it may have changed.

    Reads no data. Episodes whose files are not there are omitted. missing: takes the errors of those of them whose
    location names a file that it lacks, by key. A damaged episode has the fingerprint of no file: opening it raises its
    error. Raises the errors of open_location, and one that all episodes have.

    Examples:
        >>> [address.key for address, _ in list_episodes("episodes/circle-02.wshard")]
        ['']
    """
    found = LocationEpisodes(str(uri), format_name or "")
    errors: list[FormatError] = []
    with open_location(uri, format_name) as source:
        for key in source.keys():  # noqa: SIM118  (a Source is no mapping)
            try:
                fingerprint = source.fingerprint(key)
            except FileNotFoundError as error:
                if missing is not None and isinstance(error, MissingFileError):
                    missing[key] = error
                continue
            except FormatError as error:
                errors.append(error)
                fingerprint = Fingerprint(0, 0)
            else:
                found.companions.update(source.companions(key))
            found.add(key, fingerprint)
    if errors and len(errors) == len(found) and len({*map(str, errors)}) == 1:
        raise errors[0]
    return found
