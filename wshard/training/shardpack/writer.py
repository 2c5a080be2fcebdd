"""Write ShardPack files: records in one pass, each file whole or not at all, a new one when the last is full."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from wshard.core.container.layout import checksum
from wshard.core.messages import shown
from wshard.errors import FormatError, LimitError, MetadataError, RecordingExistsError, RecordingStateError
from wshard.training.shardpack.codecs import PackCompression
from wshard.training.shardpack.index import pack_metadata
from wshard.training.shardpack.layout import (
    MAX_ENTRIES,
    MAX_ENTRY_SIZE,
    MAX_META_SIZE,
    PARTIAL,
    EntryHeader,
    RecordHeader,
)
from wshard.training.shardpack.names import encode_key, encode_name, encode_type, guess_type
from wshard.training.shardpack.partial_file import PartialFile, leftover_error
from wshard.training.shardpack.publishing import finish_interrupted, name_files, write_note
from wshard.training.shardpack.record import RecordMetadata
from wshard.training.shardpack.shards import ShardNames

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from wshard.core.container.layout import Buffer

_RESERVED_KEY: Final = "shardpack"


class NewEntry(NamedTuple):
    """A file to write. content_type None: from the name's extension. compression None: the writer's default."""

    name: str
    data: Buffer
    content_type: str | None = None
    compression: str | PackCompression | None = None


@dataclass(frozen=True)
class ShardLimits:
    """Limits of a shard: max_bytes of records, and max_records; None for no limit.

    A larger record gets its own shard, unless it has more than max_record_bytes as stored: then it is refused.
    """

    max_bytes: int | None = None
    max_records: int | None = None
    max_record_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_records", "max_record_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise FormatError(f"{name}: expected a number of at least 1, found {value}")

    def check_record(self, size: int, where: str) -> None:
        """Raise LimitError for a record that is too large."""
        if self.max_record_bytes is not None and size > self.max_record_bytes:
            raise LimitError(
                f"{where}: expected at most {self.max_record_bytes} bytes in a record, found {size}: split its files "
                "into several records, or allow more (max_record_bytes, --record-size-limit)"
            )

    def reached(self, records: int, size: int, more: int) -> bool:
        """Return True if the shard has no room for a record of `more` bytes."""
        is_full = self.max_records is not None and records >= self.max_records
        return records > 0 and (is_full or (self.max_bytes is not None and size + more > self.max_bytes))


class ShardPackWriter:
    """Writes records to one file, or to a brace range of files; close() or leaving the `with` publishes them.

    Until then only `.partial` files exist; an error inside the `with` removes them. metadata: the shard's JSON object;
    a range adds shard_index and shard_count to its "shardpack". key_table: store a table for look-up by key. Equal
    input and options give equal bytes. Raises RecordingExistsError for existing files, unless overwrite is true.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str | PackCompression = "none",
        limits: ShardLimits | None = None,
        metadata: Mapping[str, Any] | None = None,
        key_table: bool = True,
        overwrite: bool = False,
    ) -> None:
        self._names = ShardNames.parse(path)
        self.where = str(self._names)
        self._compression = PackCompression.parse(compression)
        self._limits = limits or ShardLimits()
        self._metadata = dict(metadata or {})
        self._has_key_table = key_table
        self._overwrite = overwrite
        self._shards: list[PartialFile] = []
        pack_metadata(self._shard_metadata(0))
        finish_interrupted(self._names)
        existing = self._names.existing()
        if existing and not overwrite:
            raise RecordingExistsError(f"{existing[0]} exists already: name another file, or overwrite (--overwrite)")
        self._keys: set[str] = set()
        self._open = True
        self._begin_shard()
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        """Remove the leftovers of an interrupted writer of a range; raises RecordingExistsError unless requested."""
        for path in self._names.existing(PARTIAL):
            if path == self._shards[0].path:
                continue
            if not self._overwrite:
                self.discard()
                raise leftover_error(path)
            path.unlink(missing_ok=True)

    def _shard_metadata(self, number: int) -> dict[str, Any]:
        """Return the metadata of a shard, with its number and their count for a range."""
        info = self._metadata.get(_RESERVED_KEY, {})
        if not isinstance(info, Mapping):
            raise MetadataError(f'{self.where}: metadata: "{_RESERVED_KEY}": expected an object, found {shown(info)}')
        if self._names.first is None:
            return self._metadata
        position = {"shard_index": number, "shard_count": len(self._shards)}
        return self._metadata | {_RESERVED_KEY: {**info, **position}}

    def _begin_shard(self) -> None:
        final = self._names.path(len(self._shards))
        if len(self._shards) > 1:  # the first stays open, as its lock is that of the range
            self._shards[-1].pause()
        self._shards.append(PartialFile(final, overwrite=self._overwrite))

    def write_record(self, key: str, entries: Mapping[str, Buffer] | Iterable[NewEntry], metadata: Any = None) -> None:
        """Append a record: its files by name, or as NewEntry; metadata: a JSON value, or RecordMetadata.

        Raises FormatError for a duplicate or invalid key or name, LimitError, OSError. After a FormatError the writer
        can continue: nothing of the record was written.
        """
        if not self._open:
            raise RecordingStateError(f"{self.where}: write_record: expected before close()")
        where = f"{self.where}: record {shown(key)}"
        encoded_key = encode_key(key, where)
        if key in self._keys:
            raise FormatError(f"{where}: expected a new key, found it written already")
        record_metadata = metadata if isinstance(metadata, RecordMetadata) else RecordMetadata.of(metadata)
        if len(record_metadata.data) > MAX_META_SIZE or bool(record_metadata.data) != bool(record_metadata.encoding):
            raise LimitError(f"{where}: metadata: expected 1 to {MAX_META_SIZE} bytes, or none without an encoding")
        parts = self._pack_entries(where, entries)
        size = sum(map(len, parts))
        header = RecordHeader(0, len(parts) // 2, len(encoded_key), len(record_metadata.data), record_metadata.encoding)
        header = header._replace(record_size=header.entries_start + size)
        self._limits.check_record(header.record_size, where)
        shard = self._shards[-1]
        if self._limits.reached(len(shard), shard.size, header.record_size):
            self._begin_shard()
        self._shards[-1].append(key, [header.pack(encoded_key, record_metadata.data), *parts])
        self._keys.add(key)

    def _pack_entries(self, where: str, entries: Mapping[str, Buffer] | Iterable[NewEntry]) -> list[Buffer]:
        """Return header and stored bytes of each entry, alternating."""
        new_entries = [NewEntry(*pair) for pair in entries.items()] if isinstance(entries, Mapping) else list(entries)
        names = [entry.name for entry in new_entries]
        if len(new_entries) > MAX_ENTRIES:
            raise LimitError(f"{where}: {len(new_entries)} entries: expected at most {MAX_ENTRIES}")
        if len(set(names)) != len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise FormatError(f"{where}: entry {shown(repeated)}: expected unique names, found it twice")
        parts: list[Buffer] = []
        for entry in new_entries:
            parts += self._pack_entry(f"{where}: entry {shown(entry.name)}", entry)
        return parts

    def _pack_entry(self, where: str, entry: NewEntry) -> tuple[Buffer, Buffer]:
        name = encode_name(entry.name, where)
        content_type = encode_type(guess_type(entry.name) if entry.content_type is None else entry.content_type, where)
        try:
            data = memoryview(entry.data).cast("B")
        except TypeError:
            raise FormatError(f"{where}: expected contiguous bytes, found {shown(entry.data)}") from None
        if len(data) > MAX_ENTRY_SIZE:
            raise LimitError(f"{where}: {len(data)} bytes: expected at most {MAX_ENTRY_SIZE}")
        compression = self._compression if entry.compression is None else PackCompression.parse(entry.compression)
        codec, stored = compression.compress(data)
        header = EntryHeader(len(data), len(stored), len(name), len(content_type), codec, checksum(stored))
        return header.pack(name, content_type), stored

    def close(self) -> list[Path]:
        """Finish and publish all files; returns their paths. A second call does nothing."""
        if not self._open:
            return [shard.final for shard in self._shards]
        self._open = has_note = False
        try:
            for number, shard in enumerate(self._shards):
                shard.finish(self._shard_metadata(number), with_table=self._has_key_table, first=number == 0)
            has_note = self._write_note()
            name_files(self._names, len(self._shards))
        except BaseException:
            if not has_note:
                self._discard()
            raise
        finally:
            self._shards[0].pause()
        return [shard.final for shard in self._shards]

    def _write_note(self) -> bool:
        """Write the note if several files change; return whether it did.

        Raises RecordingExistsError for files that another process wrote meanwhile.
        """
        existing = self._names.existing()
        if existing and not self._overwrite:
            raise RecordingExistsError(
                f"{existing[0]} was written by another process: choose another file, or overwrite (--overwrite)"
            )
        needs_note = len({*existing, *(shard.final for shard in self._shards)}) > 1
        if needs_note:
            write_note(self._names, len(self._shards))
        return needs_note

    def discard(self) -> None:
        """Remove the partial files and publish nothing."""
        if self._open:
            self._open = False
            self._discard()

    def _discard(self) -> None:
        for shard in self._shards:
            with contextlib.suppress(OSError):
                shard.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()
