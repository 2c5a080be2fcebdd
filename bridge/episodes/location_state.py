"""The state of a location of several episodes: while its files are unchanged, so are its episodes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import xxhash

from wshard import __version__
from wshard.core.episode.protocol import parse_read_as
from wshard.core.files.schemes import local_path
from wshard.errors import WShardError
from wshard.formats.base import source_class
from wshard.formats.table import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator


def location_state(uri: str, how: str) -> str | None:
    """Return a hash of the paths, sizes and modification times of all files of a folder, and of how it is read.

    None for what has to be listed each time: a file, or a folder of which parts may lie elsewhere (a link, a format of
    another package or whose folders have others in them).
    """
    name, _ = parse_read_as(how)
    path = local_path(uri)
    try:
        entry = FORMATS.get(name)
        if entry is None or not entry.source or not source_class(name).whole or not os.path.isdir(path):  # noqa: PTH112
            return None
        digest = xxhash.xxh3_128(f"{__version__}\0{how}".encode())
        for file in _files_below(path):
            digest.update(file.encode(errors="surrogateescape"))
    except (OSError, WShardError):
        return None  # listing it reports the error
    return digest.hexdigest()


def _files_below(folder: str) -> Iterator[str]:
    """Yield a line for each file, in order; raises OSError, and for a link to a folder."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
            continue
        status = entry.stat()
        if entry.is_dir():
            raise NotADirectoryError(f"{entry.path}: expected a file, found a link to a folder")
        yield f"{entry.path}\0{status.st_size}\0{status.st_mtime_ns}\n"
