"""Load, save and convert single episodes of any known format.

Knows: how a format is told from a name or the first bytes. Does not know: any format (formats/base.py finds them).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from wshard.arguments import file_object
from wshard.container.layout import MAGIC
from wshard.container.open_file import open_file
from wshard.errors import FormatError, WShardError
from wshard.formats.base import FORMATS, OWN_DATA, open_sink, open_source
from wshard.types import Episode, Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.container.codec_plan import Compression
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


def detect_format(path: str | os.PathLike[str]) -> Format:
    """Return the format that a path's suffix tells, else its first bytes; UNKNOWN where neither does.

    An HDF5 file that is there is looked into: MINARI, ROBOMIMIC or D4RL by the names in it, else HDF5.
    """
    known = _SUFFIXES.get(Path(path).suffix.lower())
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


def load(path_or_file: Location, format: Format | str | None = None) -> Episode:  # noqa: A002  (the reference's name)
    """Load the one episode of a path or binary file object; without `format` its name or first bytes tell it.

    format: one of types.Format, an entry point's name, or "package.module:attribute". Raises FormatError for an
    unknown format or several episodes, UnsupportedFormatError (a NotImplementedError), and what the format raises.
    """
    name = _name(format, _format_of(path_or_file), path_or_file)
    with open_source(path_or_file, name) as source:
        keys = source.keys()
        if len(keys) != 1:
            raise FormatError(
                f"{path_or_file}: expected one episode, found {len(keys)}: read them with open_source, or "
                f"`wshard convert` them into a folder"
            )
        return source.load(keys[0])


def save(
    ep: Episode,
    path_or_file: Location,
    format: Format | str | None = None,  # noqa: A002  (the reference's name)
    *,
    compression: Compression = "none",
) -> None:
    """Save an episode to a path or binary file object; without `format` the suffix tells it, a file is WSHARD.

    compression: as in save_wshard. Raises what load raises, EpisodeError for what the format cannot hold.
    """
    guess = detect_format(path_or_file) if isinstance(path_or_file, (str, os.PathLike)) else Format.WSHARD
    with open_sink(path_or_file, _name(format, guess, path_or_file), compression=compression) as sink:
        sink.write(ep)


def convert(
    input_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    input_format: Format | str | None = None,
    output_format: Format | str | None = None,
    *,
    compression: Compression = "none",
) -> Episode:
    """Load one episode and save it in another format; returns it. Raises what load and save raise."""
    ep = load(input_path, input_format)
    save(ep, output_path, output_format, compression=compression)
    return ep


def convert_each(
    input_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    input_format: Format | str | None = None,
    output_format: Format | str | None = None,
    *,
    compression: Compression = "none",
) -> Iterator[tuple[str, int | WShardError]]:
    """Convert every episode of a file or folder; yield its key, and its timesteps or why it could not be converted.

    The output is a file for one episode, or a folder, which is made where nothing is, for all episodes of a folder and
    for several of a file. Raises what load and save raise for the places themselves, OSError for a full disk.
    """
    name = _name(input_format, detect_format(input_path), input_path)
    with open_source(input_path, name) as source:
        keys, guess, target = source.keys(), detect_format(output_path), Path(output_path)
        if (len(keys) != 1 or Path(input_path).is_dir()) and not target.is_dir():
            if guess or target.exists():
                raise FormatError(f"{target}: expected a folder for the {len(keys)} episode(s) of {input_path}")
            _name(output_format, guess, output_path)  # nothing is made for a format that nobody knows
            target.mkdir()
        with open_sink(output_path, _name(output_format, guess, output_path), compression=compression) as sink:
            for key in keys:
                try:
                    ep = source.load(key)
                    sink.write(ep)
                    yield key, ep.length
                except WShardError as error:
                    yield key, error


def _format_of(location: Location) -> Format:
    if isinstance(location, (str, os.PathLike)):
        return detect_format(location)
    return detect_format_bytes(_peek(file_object(location, "read")))


def _peek(file: IO[bytes]) -> bytes:
    position = file.tell()
    magic = file.read(_MAGIC_SIZE)
    file.seek(position)
    return magic


def _name(given: Format | str | None, guess: Format, where: Location) -> str:
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
