"""Which format a location has: by the suffix of a file, by its first bytes, or by its contents."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Final

from wshard.core.container.layout import MAGIC
from wshard.core.files.file_object import OpenFilePlace
from wshard.core.files.schemes import place_of
from wshard.core.types import Format
from wshard.errors import AmbiguousFormatError, DatasetError, FormatError, WShardError
from wshard.formats.base import OWN_DATA, find_matcher, load_matchers
from wshard.formats.look import LocationLook, look_at
from wshard.formats.npz import ZIP_MAGIC, array_names
from wshard.formats.table import (
    BY_SUFFIX,
    FORMATS,
    LAYOUT,
    OTHER_ARRAYS,
    how_to_describe,
    is_pickle,
    kind_without_arrays,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.formats.base import FormatMatcher

_SUFFIXES: Final = {
    ".wshard": Format.WSHARD,
    ".shard": Format.WSHARD,
    ".npz": Format.DREAMER_V3,
    ".pt": Format.TDMPC2,
    ".pth": Format.TDMPC2,
    ".hdf5": Format.MINARI,
    ".h5": Format.MINARI,
}
_MAGICS: Final = {MAGIC: Format.WSHARD, ZIP_MAGIC: Format.DREAMER_V3, b"\x89HDF": Format.MINARI}
_MAGIC_SIZE: Final = 4
_MAX_CHILDREN: Final = 100  # paths in a folder whose format is detected for a message
_MAX_LISTED: Final = 10  # of these, the number in the message
_FORMAT_VALUES: Final = frozenset(member.value for member in Format)


def detect_format(path: Location) -> str:
    """Return the format of a location: a member of types.Format, or the name of another format.

    An episode file of this project is detected by its suffix; other files and folders by their contents
    (`match_format`), else by suffix or first bytes. A folder of episode files is not a location but has many.
    UNKNOWN, which is false, for other locations.
    Raises AmbiguousFormatError for a location that fits two formats.
    """
    look = look_at(path)
    by_suffix = _SUFFIXES.get(look.suffix)
    name = Format.WSHARD if by_suffix is Format.WSHARD else match_format(look) or _detect_file(look) or _by_suffix(look)
    return Format(name) if name in _FORMAT_VALUES else name


def _by_suffix(look: LocationLook) -> str:
    """Return the format of this suffix, "" for a folder: its contents say what it is."""
    return "" if look.is_folder else BY_SUFFIX.get(look.suffix, "")


def match_format(location: Location | LocationLook, matchers: Sequence[FormatMatcher] | None = None) -> str | None:
    """Return the name of the format that recognises a file or folder as its location, None if there is none.

    matchers: what load_matchers returns, for many calls. Formats of this package come first, then its layouts, then
    formats of others.
    Raises AmbiguousFormatError where two of this package take it.
    """
    look = look_at(location)
    names: list[str] = []
    for matcher in load_matchers() if matchers is None else matchers:
        if names and (not matcher.own or (matcher.name.startswith(LAYOUT) and not names[0].startswith(LAYOUT))):
            break
        with suppress(Exception):  # errors in another package's matcher must not end the search
            names += [matcher.name] if matcher.matches(look) else []
    if len(names) > 1 and (names[0] in FORMATS or names[0].startswith(LAYOUT)):
        raise AmbiguousFormatError(
            f"{look.place}: fits the formats {' and '.join(names)}: name the one that it is (--format)"
        )
    return names[0] if names else None


def is_recognised(location: Location, name: str) -> bool:
    """Return whether a format recognises a location; name: of the format, "" for any."""
    try:
        return bool(match_format(location, (find_matcher(name),)) if name else detect_format(location))
    except WShardError:  # its library is not installed
        return False


def _detect_file(look: LocationLook) -> str:
    by_suffix = _SUFFIXES.get(look.suffix)
    if by_suffix not in (None, Format.MINARI, Format.DREAMER_V3):
        return by_suffix
    try:
        with look.place.open() as file:
            magic = file.read(_MAGIC_SIZE)
            if magic == ZIP_MAGIC:
                return _zip_kind(file, by_suffix)
    except (OSError, FormatError):
        return by_suffix or Format.UNKNOWN
    by_magic = detect_format_bytes(magic)
    if by_magic is not Format.MINARI:
        return by_magic or by_suffix or Format.UNKNOWN
    from wshard.formats.hdf5.kinds import hdf5_kind
    from wshard.formats.layouts.recognise import array_paths

    kind = hdf5_kind(look)
    if kind and kind in _FORMAT_VALUES:
        return Format(kind)
    return OTHER_ARRAYS if array_paths(look, "hdf5") else Format.HDF5  # damaged or empty: opening it says so


def _zip_kind(file: IO[bytes], by_suffix: Format | None = None) -> str:
    """Return the format of a zip archive that no format recognises by its path, by the arrays in it."""
    from wshard.formats.dreamer.files import IS_FIRST

    names = array_names(file)
    if names is None or IS_FIRST in names:
        return Format.DREAMER_V3  # damaged: opening it says how
    return OTHER_ARRAYS if names or by_suffix else Format.UNKNOWN


def detect_format_bytes(data: bytes) -> Format:
    """Return the format by the first four bytes of a file, UNKNOWN if they are of none; any zip archive may be an .npz.

    `detect_format` looks into the file.
    """
    return _MAGICS.get(bytes(data[:_MAGIC_SIZE]), Format.UNKNOWN)


def format_of(location: Location) -> str:
    """Return the format of a path, as detect_format, or of a file object, by its first bytes and names of arrays."""
    place = place_of(location)
    if not isinstance(place, OpenFilePlace):
        return detect_format(place)
    file = place.file
    position = file.tell()
    magic = file.read(_MAGIC_SIZE)
    name = _zip_kind(file) if magic == ZIP_MAGIC else detect_format_bytes(magic)
    file.seek(position)
    return name


def format_to_write(path: Location) -> str:
    """Return the format of what is there, else the one of the suffix, also over other arrays: its Sink decides."""
    place = place_of(path)
    by_suffix = BY_SUFFIX.get(place.suffix.lower(), "")
    name = (not place.exists() and by_suffix) or detect_format(place) or by_suffix
    return by_suffix or Format.DREAMER_V3 if name == OTHER_ARRAYS else name


def list_inside(folder: Place, detect: Callable[[Place], str]) -> str:
    """Return "NAME (FORMAT), ..." of the paths in a folder whose format is detected, "" for none.

    If there are none directly in it, its subfolders are searched.
    """
    described = list[str]()
    children = folder.glob("*")
    for places in (children, chain.from_iterable(child.glob("*") for child in children)):
        for place in islice(places, _MAX_CHILDREN) if not described else ():
            with suppress(FormatError, DatasetError, OSError):
                described += [f"{place.relative_to(folder)} ({name})"] if (name := detect(place)) else []
    return ", ".join(described[:_MAX_LISTED] + ["..."] * (len(described) > _MAX_LISTED))


def describe_arrays(folder: Location) -> str:
    """Return the names of files of arrays of no format in a folder, and what to do with them; "" for none."""
    place = place_of(folder)
    names = list_inside(place, _kind_of)
    for kind, example in (("other arrays", place), ("video", "FILE.mp4"), ("pickle", "FILE.pkl")):
        if f"({kind})" in names:
            return f"it has {names}, of no known format or layout: {how_to_describe(example)}"
    return ""


def _kind_of(place: Place) -> str:
    from wshard.formats.layouts.layout import may_have_layout

    if kind := kind_without_arrays(place):
        return kind
    name = detect_format(place)
    is_described = not name and may_have_layout(place.name) and place.suffix.lower() != ".json"
    return "other arrays" if name == OTHER_ARRAYS or is_described else ""


def known_format(given: str | None, guess: str, where: Location) -> str:
    """Return the given format, else the guess; raises FormatError if there is neither."""
    name = str(guess if given is None else given)
    if not name:
        place = place_of(where)
        if place.is_dir():
            inside = list_inside(place, lambda path: "" if (name := detect_format(path)) == OTHER_ARRAYS else name)
            advice = (
                f"it has {inside}: name one, such as {place / inside.partition(' (')[0]}, or the format of all"
                if inside
                else describe_arrays(place) or f"name the format of its files ({', '.join(FORMATS)})"
            )
            raise FormatError(f"{where}: Unknown format: a folder: {advice}")
        if not isinstance(place, OpenFilePlace):
            with suppress(OSError):
                place.open().close()  # says what it is instead of a file of data
        from wshard.formats.layouts.layout import may_have_layout

        advice = how_to_describe(place) if may_have_layout(place.name) or is_pickle(place.name) else OWN_DATA
        raise FormatError(f"{where}: Unknown format: expected a file of a known format or layout; {advice}")
    return name
