"""Episode files of this project as a Source and a Sink: one file, one chunked episode, or a folder of both.

Knows: which files of a folder are episodes. Does not know: what is in them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from wshard.episode_file import load_wshard, save_wshard
from wshard.errors import EntryNotFoundError, EpisodeError
from wshard.manifest import MANIFEST_SUFFIX, read_manifest, safe_name
from wshard.opening import open_episode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.codec_plan import Compression
    from wshard.formats.base import Location
    from wshard.types import Episode

SUFFIXES: Final = (".wshard", ".shard")


class WShardSource:
    """A file or file object holds the one episode ""; in a folder, keys are paths below it.

    A manifest stands for its chunks: they are one episode.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._folder = Path(location) if isinstance(location, (str, os.PathLike)) and Path(location).is_dir() else None
        self._keys = [""] if self._folder is None else _episodes_below(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: files are open during load only."""

    def keys(self) -> Sequence[str]:
        """Return "" for a file, the sorted relative paths for a folder."""
        return list(self._keys)

    def load(self, key: str) -> Episode:
        """Return one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        if key not in self._keys:
            raise EntryNotFoundError(f"{self._location}: no episode {key!r}; it has {', '.join(self._keys[:20])}")
        place = self._location if self._folder is None else self._folder / key
        if isinstance(place, (str, os.PathLike)):
            with open_episode(place) as file:
                return file.load()
        return load_wshard(place)


def _episodes_below(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    chunks = set()
    for path in files:
        if path.name.endswith(MANIFEST_SUFFIX):
            chunks |= {path.parent / row.uri for row in read_manifest(path).rows()}
    return sorted(path.relative_to(folder).as_posix() for path in files if path not in chunks)


class WShardSink:
    """A path or file object takes one episode; a folder takes many, each in a file named after its id."""

    def __init__(self, location: Location, *, compression: Compression = "none") -> None:
        self._location = location
        self._compression = compression
        self._written = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: each write is finished when it returns."""

    def write(self, ep: Episode) -> str:
        """Write one episode; returns its key. Raises EpisodeError for a second one in a file, or an id twice."""
        location = self._location
        if isinstance(location, (str, os.PathLike)) and Path(location).is_dir():
            path = Path(location) / f"{safe_name(ep.id)}{SUFFIXES[0]}"
            if path.exists():
                raise EpisodeError(f"{path}: expected no episode {ep.id!r} there yet")
            save_wshard(ep, path, self._compression)
            return path.name
        if self._written:
            raise EpisodeError(f"{location}: expected one episode for one file; give a folder to write several")
        save_wshard(ep, location, self._compression)
        self._written = True
        return ""
