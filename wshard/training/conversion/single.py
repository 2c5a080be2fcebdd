"""Load, save and convert single episodes of any known format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wshard.core.types import Episode, Format
from wshard.errors import FormatError
from wshard.formats.base import open_sink, open_source, sink_class
from wshard.formats.detect import format_to_write, known_format
from wshard.formats.open import find_reading

if TYPE_CHECKING:
    from wshard.core.container.codec_plan import Compression
    from wshard.core.container.draft import WriteMode
    from wshard.core.files.schemes import Location, PathOrFile


def load(path_or_file: Location, format: Format | str | None = None) -> Episode:  # noqa: A002  (the reference's name)
    """Load the one episode of a path or binary file object; without `format`, it is found by name and content.

    format: one of types.Format, an entry point's name, or "package.module:attribute". Raises FormatError for an
    unknown format or several episodes, UnsupportedFormatError (a NotImplementedError), and what the format raises.

    Examples:
        >>> load("episodes/circle-02.wshard").length
        118
    """
    with open_source(path_or_file, str(format or find_reading(path_or_file))) as source:
        keys = source.keys()
        if len(keys) != 1:
            raise FormatError(
                f"{path_or_file}: expected one episode, found {len(keys)}: read them with open_source, or "
                f"`wshard convert` them into a folder"
            )
        return source.load(keys[0])


def save(
    ep: Episode,
    path_or_file: PathOrFile,
    format: Format | str | None = None,  # noqa: A002  (the reference's name)
    *,
    compression: Compression = "none",
) -> None:
    """Save an episode to a path or binary file object; without `format`, the suffix decides, WSHARD for a file object.

    compression: as in save_wshard. A file of one episode is replaced, a set of several gets one more. Raises the errors
    of load, and EpisodeError for data that the format cannot hold.

    Examples:
        >>> save(load("episodes/circle-02.wshard"), "circle.npz")
        >>> load("circle.npz").length
        118
    """
    guess = format_to_write(path_or_file) if isinstance(path_or_file, (str, os.PathLike)) else Format.WSHARD
    name = known_format(format, guess, path_or_file)
    is_folder = isinstance(path_or_file, (str, os.PathLike)) and Path(path_or_file).is_dir()
    mode: WriteMode = "overwrite" if sink_class(name).one_per_file and not is_folder else "append"
    with open_sink(path_or_file, name, compression=compression, mode=mode) as sink:
        sink.write(ep)


def convert(
    input_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    input_format: Format | str | None = None,
    output_format: Format | str | None = None,
    *,
    compression: Compression = "none",
) -> Episode:
    """Load one episode and save it in another format; returns it. Raises what load and save raise.

    Examples:
        >>> convert("episodes/wave-00.wshard", "wave.npz").id
        'wave-00'
    """
    ep = load(input_path, input_format)
    save(ep, output_path, output_format, compression=compression)
    return ep
