"""ShardPacks of episodes as a Source and a Sink: a record is an episode, with an episode file as an entry."""

from __future__ import annotations

import contextlib
import errno
import io
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.core.episode.file import EpisodeFile, save_wshard
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.files.byte_source import MemorySource, open_source
from wshard.core.files.exchange import check_unchanged, stamp_owned
from wshard.errors import EntryNotFoundError, EpisodeError, FormatError
from wshard.formats.draft_sink import DraftSink
from wshard.formats.file_per_episode import FilesSource
from wshard.formats.look import look_at
from wshard.training.shardpack.layout import RECORD_MAGIC, RECORD_SIZE
from wshard.training.shardpack.names import EPISODE_TYPE
from wshard.training.shardpack.reader import ShardPackReader
from wshard.training.shardpack.record import unpack_record
from wshard.training.shardpack.writer import NewEntry, ShardPackWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.container.draft import WriteMode
    from wshard.core.container.layout import Buffer
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.types import Episode
    from wshard.formats.look import LocationLook
    from wshard.training.shardpack.record import ShardPackEntry, ShardPackRecord

EPISODE_ENTRY: Final = "episode.wshard"
_SUFFIX: Final = ".shardpack"


class ShardPackSource(FilesSource[int]):
    """The episodes of one ShardPack: keys are those of its records.

    A record's episode is its first entry of content type application/x-wshard. Where that is stored uncompressed, lanes
    are read lazily out of its bytes.
    """

    meaning = (
        ("key of a record", "the key of an episode"),
        ("entry of type application/x-wshard", "the episode file; other entries are left alone"),
    )
    own_lanes = True

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        if self._place.is_dir():
            raise IsADirectoryError(errno.EISDIR, "expected a ShardPack file, found a folder", str(self._place))

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Return True for a ShardPack whose first record, or the first intact one, has an episode."""
        look = look_at(location)
        if not look.head[RECORD_SIZE.size :].startswith(RECORD_MAGIC) and look.suffix != _SUFFIX:
            return False
        try:
            source = open_source(look.place)  # not ShardPackReader: it would read the index, which may be large
            (size,) = RECORD_SIZE.unpack_from(look.head.ljust(RECORD_SIZE.size, b"\0"))
            record: ShardPackRecord | None = unpack_record(source.read(0, min(size, source.size)), str(look.place))
        except (FormatError, OSError):
            record = _first_intact(look.place)
        return record is not None and _episode_entry(record) is not None

    @cached_property
    def _pack(self) -> ShardPackReader:
        return ShardPackReader(self._place)

    def _scan(self) -> Mapping[str, int]:
        return {self._key(number): number for number in range(len(self._pack))}

    def _key(self, number: int) -> str:
        """Return the key of a record, its number for one whose key is damaged: opening it reports the error."""
        try:
            return self._pack.key(number)
        except FormatError:
            return f"record {number}"

    def _find(self, key: str) -> int:
        with contextlib.suppress(EntryNotFoundError):
            if key not in self._episodes:
                self._pack.find(key)  # raises an error that says that its record is damaged, if it is
        return super()._find(key)

    def _files(self, ref: int) -> Sequence[Place]:
        return [self._place]

    def open(self, key: str) -> EpisodeFile:
        """Open one episode; raises EntryNotFoundError, FormatError for a record without one."""
        record = self._pack.record(self._find(key))
        entry = _episode_entry(record)
        if entry is None:
            raise FormatError(f"{record.where}: expected an entry of content type {EPISODE_TYPE}, found none")
        data: Buffer = entry.read() if entry.codec else entry.stored
        where = str(EpisodeAddress(self._pack.where, key))
        return EpisodeFile(MemorySource(memoryview(data).toreadonly(), where))


def _first_intact(place: Place) -> ShardPackRecord | None:
    try:
        with ShardPackReader(place) as pack:
            return next(pack.intact_records(lambda *_: None), None)
    except (FormatError, OSError):
        return None


def _episode_entry(record: ShardPackRecord) -> ShardPackEntry | None:
    """Return the entry with an episode file, None if there is none."""
    return next((entry for entry in record if entry.content_type == EPISODE_TYPE), None)


class ShardPackSink(DraftSink):
    """Writes episodes as records of one ShardPack, which appears, or changes, when the Sink is closed.

    The id of an episode is its key; compression is that of its lanes, so that they can be read alone. mode "append"
    copies the existing records. Raises FileExistsError for an existing file in mode "error".
    """

    content = "ShardPack"
    copies_all = True
    keeps_bfloat16 = True

    def _has_episodes(self) -> bool:
        if self._target.is_dir():
            raise FormatError(f"{self._where}: expected the path of a ShardPack file")
        return self._target.exists()

    def _open_draft(self, mode: WriteMode) -> None:
        """Return None: a ShardPackWriter has a draft of its own."""
        self._writer: ShardPackWriter | None = None
        self._stamps = stamp_owned(Path(self._where), self.owned(Path(self._where)), mode)  # refuses a file of others

    def _begin(self, draft: Path, *, continues: bool) -> None:
        if continues:
            with ShardPackReader(draft) as pack:
                self._ids = set(pack.keys())

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return [""] for a ShardPack of episodes."""
        return [""] if location.is_file() and ShardPackSource.matches(location) else []

    def _add(self, ep: Episode, draft: Path) -> str:
        file = io.BytesIO()
        save_wshard(ep, file, self._compression)
        if self._writer is None:
            self._writer = self._open()
        try:
            self._writer.write_record(ep.id, [NewEntry(EPISODE_ENTRY, file.getbuffer(), EPISODE_TYPE, "none")])
        except FormatError as error:
            raise EpisodeError(f"{self._where}: episode {ep.id!r}: {error}") from error
        return ep.id

    def _open(self) -> ShardPackWriter:
        """Begin the file; in mode "append", with the existing records."""
        existing = ShardPackReader(self._where) if self._existed and self._mode == "append" else None
        metadata = {} if existing is None else dict(existing.metadata)
        writer = ShardPackWriter(self._where, metadata=metadata, overwrite=self._mode != "error")
        try:
            for record in existing or ():
                entries = [
                    NewEntry(entry.name, entry.read(), entry.content_type, entry.codec.name.lower()) for entry in record
                ]
                writer.write_record(record.key, entries, record.metadata)
        except BaseException:
            writer.discard()
            raise
        return writer

    def _finish(self, draft: Path) -> None:
        if self._writer is not None:  # which keeps others out until it is closed
            check_unchanged(Path(self._where), self._stamps)
            self._writer.close()

    def _release(self) -> None:
        if self._writer is not None:
            self._writer.discard()
