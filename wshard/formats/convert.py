"""Load, save and convert single episodes of any known format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wshard.episode.encode_cameras import encode_cameras
from wshard.errors import FormatError, WShardError
from wshard.formats.base import FORMATS, open_sink, open_source
from wshard.formats.detect import detect_format, format_of, known_format
from wshard.types import Episode, Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.container.codec_plan import Compression
    from wshard.episode.encode_cameras import Encode
    from wshard.formats.base import Location


def load(path_or_file: Location, format: Format | str | None = None) -> Episode:  # noqa: A002  (the reference's name)
    """Load the one episode of a path or binary file object; without `format` its name or first bytes tell it.

    format: one of types.Format, an entry point's name, or "package.module:attribute". Raises FormatError for an
    unknown format or several episodes, UnsupportedFormatError (a NotImplementedError), and what the format raises.
    """
    name = known_format(format, format_of(path_or_file), path_or_file)
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
    with open_sink(path_or_file, known_format(format, guess, path_or_file), compression=compression) as sink:
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
    encode: Encode | None = None,
) -> Iterator[tuple[str, int | WShardError]]:
    """Convert every episode of a file or folder; yield its key, and its timesteps or why it could not be converted.

    compression, encode: as in save_wshard.

    The output is a file for one episode, or a folder, which is made where nothing is, for all episodes of a folder and
    for several of a file. Raises what load and save raise for the places themselves, OSError for a full disk.
    """
    name = known_format(input_format, detect_format(input_path), input_path)
    with open_source(input_path, name) as source:
        keys, guess, target = source.keys(), detect_format(output_path), Path(output_path)
        several = len(keys) != 1 or Path(input_path).is_dir()
        entry = FORMATS.get(str(output_format or guess))
        if several and not target.is_dir() and not (entry and entry.many):
            if guess or target.exists():
                raise FormatError(f"{target}: expected a folder for the {len(keys)} episode(s) of {input_path}")
            known_format(output_format, guess, output_path)  # nothing is made for a format that nobody knows
            target.mkdir()
        with open_sink(output_path, known_format(output_format, guess, output_path), compression=compression) as sink:
            for key in keys:
                try:
                    ep = encode_cameras(source.load(key), encode)
                    sink.write(ep)
                    yield key, ep.length
                except WShardError as error:
                    yield key, error
