"""Which format a location has: by the suffix of a file, by its first bytes, or by what the formats say of a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from wshard.arguments import file_object
from wshard.container.layout import MAGIC
from wshard.container.open_file import open_file
from wshard.errors import FormatError
from wshard.formats.base import FORMATS, OWN_DATA, each_matcher
from wshard.types import Format

if TYPE_CHECKING:
    from wshard.formats.base import Location

_SUFFIXES: Final = {
    ".wshard": Format.WSHARD,
    ".shard": Format.WSHARD,
    ".npz": Format.DREAMER_V3,
    ".pt": Format.TDMPC2,
    ".pth": Format.TDMPC2,
    ".hdf5": Format.MINARI,
    ".h5": Format.MINARI,
}
_MAGICS: Final = {MAGIC: Format.WSHARD, b"PK\x03\x04": Format.DREAMER_V3, b"\x89HDF": Format.MINARI}
_MAGIC_SIZE: Final = 4
_HDF5_LOOKED_AT: Final = 1 << 20
_HDF5_NAMES: Final = {
    Format.ROBOMIMIC: re.compile(rb"demo_\d|env_args"),
    Format.MINARI: re.compile(rb"episode_\d+\0"),
    Format.D4RL: re.compile(rb"terminals"),
}


def detect_format(path: str | os.PathLike[str]) -> str:
    """Return the format of a location: a member of types.Format, or the name of another package's format.

    The suffix of a file tells it, else its first bytes. An HDF5 file that is there is looked into: MINARI, ROBOMIMIC or
    D4RL by the names in it, else HDF5. What that does not tell, and folders, the formats are asked for (`matches`):
    those of this package first, then those of entry points. A folder of replay files is one location of DREAMER_V3; a
    folder of episode files is none, but many. UNKNOWN, which is false, where nobody knows it.
    """
    found = _detect_file(path)
    if found.value in FORMATS:
        return found
    name = next((name for name, matches in each_matcher() if matches(path)), found)
    return Format(name) if name in FORMATS else name


def _detect_file(path: str | os.PathLike[str]) -> Format:
    known = _SUFFIXES.get(os.path.splitext(path)[1].lower())  # noqa: PTH122  (a million times)
    if known not in (None, Format.MINARI):
        return known
    try:
        with open_file(path) as file:
            found = detect_format_bytes(file.read(_MAGIC_SIZE))
            return _detect_hdf5(file) if found is Format.MINARI else known or found
    except (OSError, FormatError):
        return known or Format.UNKNOWN


def _detect_hdf5(file: IO[bytes]) -> Format:
    """Return whose HDF5 file it is by names that stand in its first or last bytes as text."""
    file.seek(0)
    text = file.read(_HDF5_LOOKED_AT)
    file.seek(max(file.seek(0, os.SEEK_END) - _HDF5_LOOKED_AT, 0))
    text += file.read(_HDF5_LOOKED_AT)
    return next((kind for kind, name in _HDF5_NAMES.items() if name.search(text)), Format.HDF5)


def detect_format_bytes(data: bytes) -> Format:
    """Return the format that the first four bytes of a file tell, UNKNOWN for others."""
    return _MAGICS.get(bytes(data[:_MAGIC_SIZE]), Format.UNKNOWN)


def format_of(location: Location) -> str:
    """Return the format of a path, as detect_format, or of a file object, by its first bytes."""
    if isinstance(location, (str, os.PathLike)):
        return detect_format(location)
    return detect_format_bytes(_peek(file_object(location, "read")))


def _peek(file: IO[bytes]) -> bytes:
    position = file.tell()
    magic = file.read(_MAGIC_SIZE)
    file.seek(position)
    return magic


def known_format(given: str | None, guess: str, where: Location) -> str:
    """Return the format that was given, else the guess; raises FormatError where that is none."""
    name = str(guess if given is None else given)
    if not name:
        known = ", ".join(FORMATS)
        if isinstance(where, (str, os.PathLike)) and Path(where).is_dir():
            raise FormatError(f"{where}: Unknown format: a folder: name the format of its files ({known})")
        raise FormatError(
            f"{where}: Unknown format: expected a file with a known suffix or first bytes; name the format ({known}); "
            f"{OWN_DATA}"
        )
    return name
