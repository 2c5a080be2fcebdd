"""Episode files of this project as a Source and a Sink: one file, one chunked episode, or a folder of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wshard.core.chunks.manifest import MANIFEST_SUFFIX, read_manifest
from wshard.core.chunks.reader import open_episode_file
from wshard.core.container.layout import MAGIC
from wshard.core.episode.file import save_wshard
from wshard.errors import FormatError
from wshard.formats.file_per_episode import FilesSink, FilesSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wshard.core.episode.protocol import EpisodeReader
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import PathOrFile
    from wshard.core.types import Episode

SUFFIXES: Final = (".wshard", ".shard")


class WShardSource(FilesSource["Place"]):
    """A file or file object holds the one episode ""; in a folder, keys are paths below it, sorted.

    A manifest stands for its chunks: they are one episode.
    """

    meaning = (("every block", "the lane of its name; FORMAT.md has the rules"),)
    own_lanes = True

    def _scan(self) -> Mapping[str, Place]:
        place = self._place
        return {key: place / key for key in _episodes_below(place)} if place.is_dir() else {"": place}

    def _files(self, ref: Place) -> Sequence[Place]:
        if not ref.name.endswith(MANIFEST_SUFFIX):
            return [ref]
        try:
            rows = read_manifest(ref).rows()
        except FormatError:  # opening the manifest raises the error
            rows = []
        return [ref, *(ref.parent / row.uri for row in rows)]

    def open(self, key: str) -> EpisodeReader:
        """Open one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        return open_episode_file(self._find(key))


def _episodes_below(folder: Place) -> list[str]:
    files = [file for file in folder.walk() if file.suffix in SUFFIXES and file.is_file()]
    chunks = set()
    for file in files:
        if file.name.endswith(MANIFEST_SUFFIX):
            chunks |= {file.parent / row.uri for row in read_manifest(file).rows()}
    return sorted(file.relative_to(folder) for file in files if file not in chunks)


class WShardSink(FilesSink):
    """A path or file object takes one episode; a folder takes many, each in a file named after its id."""

    suffix = SUFFIXES[0]

    @classmethod
    def _is_own(cls, path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC

    def _id_of(self, path: Path) -> str | None:
        try:
            with open_episode_file(path) as file:
                return file.id
        except FormatError:
            return None

    def _save(self, ep: Episode, location: PathOrFile) -> None:
        save_wshard(ep, location, self._compression)
