"""Episode files of this project as a Source and a Sink: one file, one chunked episode, or a folder of both."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from wshard.chunks.manifest import MANIFEST_SUFFIX, read_manifest
from wshard.chunks.reader import open_episode_file
from wshard.container.layout import MAGIC
from wshard.episode.file import open_wshard, save_wshard
from wshard.errors import FormatError
from wshard.formats.file_per_episode import FilesSink, FilesSource, folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wshard.episode.protocol import EpisodeReader
    from wshard.formats.base import Location
    from wshard.types import Episode

SUFFIXES: Final = (".wshard", ".shard")


class WShardSource(FilesSource["Location"]):
    """A file or file object holds the one episode ""; in a folder, keys are paths below it, sorted.

    A manifest stands for its chunks: they are one episode.
    """

    meaning = (("every block", "the lane of its name; FORMAT.md has the rules"),)

    def _scan(self) -> Mapping[str, Location]:
        folder = folder_of(self._location)
        return {"": self._location} if folder is None else {key: folder / key for key in _episodes_below(folder)}

    def _files(self, ref: Location) -> Sequence[Location]:
        if not isinstance(ref, (str, os.PathLike)) or not os.fspath(ref).endswith(MANIFEST_SUFFIX):
            return [ref]
        try:
            rows = read_manifest(ref).rows()
        except FormatError:  # opening the manifest raises the error
            rows = []
        return [ref, *(os.path.join(os.path.dirname(ref), row.uri) for row in rows)]  # noqa: PTH118, PTH120

    def open(self, key: str) -> EpisodeReader:
        """Open one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        location = self._find(key)
        return open_episode_file(location) if isinstance(location, (str, os.PathLike)) else open_wshard(location)


def _episodes_below(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    chunks = set()
    for path in files:
        if path.name.endswith(MANIFEST_SUFFIX):
            chunks |= {path.parent / row.uri for row in read_manifest(path).rows()}
    return sorted(path.relative_to(folder).as_posix() for path in files if path not in chunks)


class WShardSink(FilesSink):
    """A path or file object takes one episode; a folder takes many, each in a file named after its id."""

    suffix = SUFFIXES[0]

    @classmethod
    def _is_own(cls, path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC

    def _save(self, ep: Episode, location: Location) -> None:
        save_wshard(ep, location, self._compression)
