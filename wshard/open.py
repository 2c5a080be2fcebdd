"""Open episodes by address: the URI scheme and the format of the location determine the reader."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from wshard.chunks.reader import open_episode_file
from wshard.episode.protocol import EpisodeAddress, Fingerprint, parse_read_as, read_as
from wshard.errors import FormatError, MissingFileError, UnknownSchemeError
from wshard.formats.base import open_source
from wshard.formats.detect import detect_format, known_format
from wshard.formats.lane_map import MappedSource
from wshard.messages import public_url
from wshard.types import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wshard.container.byte_source import PathOrFile
    from wshard.episode.protocol import EpisodeReader
    from wshard.formats.source_base import SourceBase

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def _path_of_file_uri(uri: str) -> str:
    return unquote(urlsplit(uri).path)


SCHEMES: Final[Mapping[str, Callable[[str], str]]] = {"": str, "file": _path_of_file_uri}
"""URI scheme -> function that returns the path by which Sources open a location of it; "": the URI is a path."""


def local_path(uri: str | os.PathLike[str]) -> str:
    """Return the path by which a location is opened; raises UnknownSchemeError, which names the known schemes."""
    text = os.fspath(uri)
    found = _SCHEME.match(text) if "://" in text else None
    scheme = found[1].lower() if found else ""
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES if name)
        raise UnknownSchemeError(f"expected a path, or a URI of scheme {known}, found {public_url(text)!r}")
    return SCHEMES[scheme](text)


def open_episode(
    place: PathOrFile | EpisodeAddress, *, hashed: bool = True, format_name: str | None = None
) -> EpisodeReader:
    """Open an episode lazily: a file, a manifest of chunks, or an address, `PATH#KEY` as text.

    hashed: compare each chunk with its SHA-256 before its data is used, which reads all of it; the checksums of blocks
    are verified in any case. format_name: as in open_location; an address may specify it itself. For many episodes of
    one location, open it once and call `open` of the Source.

    Raises FormatError and its subclasses (ManifestError if chunks are inconsistent), FileNotFoundError,
    EntryNotFoundError for an unknown key, UnknownSchemeError, and the errors of the format.
    """
    if isinstance(place, str):
        address = EpisodeAddress.parse(place)
    elif isinstance(place, EpisodeAddress):
        address = place
    elif isinstance(place, os.PathLike):
        address = EpisodeAddress(os.fspath(place))
    else:  # a file object; of anything else it says that it is none
        return open_episode_file(place, hashed=hashed)
    path = local_path(address.uri)
    how = read_as(format_name) if format_name else address.read_as or detect_format(path)
    if not address.key and how in ("", Format.WSHARD):
        return open_episode_file(path, hashed=hashed)
    with open_location(address.uri, how or None) as source:
        return source.open(address.key)


def open_location(uri: str | os.PathLike[str], format_name: str | None = None) -> SourceBase:
    """Open a location of one or several episodes: a file, or a folder that a format detects as a whole.

    format_name: as in open_source, or the `read_as` of an address; by default it is detected (detect_format). The
    Source may be reused: it shows the location as it was when it was opened. A folder of episode files is several
    locations. Raises UnknownFormatError, FileNotFoundError, UnknownSchemeError, and the errors of the
    format.
    """
    path = local_path(uri)
    os.stat(path)  # noqa: PTH116  (its error names the path as it was given)
    name, lane_map = parse_read_as(format_name or "")
    source = open_source(path, known_format(None, name or detect_format(path), path))
    return MappedSource(source, lane_map) if lane_map else source


def list_episodes(
    uri: str | os.PathLike[str], format_name: str | None = None, *, missing: dict[str, MissingFileError] | None = None
) -> list[tuple[EpisodeAddress, Fingerprint]]:
    """Return the address of every episode of a location, with a fingerprint that changes when it may have changed.

    Reads no data. Episodes whose files are not there are omitted. missing: takes the errors of those of them whose
    location names a file that it lacks, by key. A damaged episode has the fingerprint of no file: opening it raises its
    error. Raises the errors of open_location, and one that all episodes have.
    """
    found = []
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
            found.append((EpisodeAddress(os.fspath(uri), key, format_name or ""), fingerprint))
    if errors and len(errors) == len(found) and len({*map(str, errors)}) == 1:
        raise errors[0]
    return found
