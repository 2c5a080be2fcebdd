"""One record of a ShardPack and its entries, parsed from the bytes of its block; payloads are decoded when read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wshard.core.container.layout import checksum
from wshard.core.messages import shown
from wshard.errors import ChecksumError, EntryNotFoundError, FormatError, MetadataError
from wshard.training.shardpack.codecs import decode
from wshard.training.shardpack.layout import (
    ENTRY_HEADER_SIZE,
    RECORD_HEADER_SIZE,
    EntryHeader,
    MetadataEncoding,
    PackCodec,
    RecordHeader,
)
from wshard.training.shardpack.names import DEFAULT_TYPE, decode_text, decode_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.container.layout import Buffer

_CODECS: Final = {int(codec): codec for codec in PackCodec}  # faster than the call


class RecordMetadata(NamedTuple):
    """The metadata bytes of a record and their encoding; b"" for none."""

    encoding: MetadataEncoding = MetadataEncoding.NONE
    data: bytes = b""

    @staticmethod
    def of(value: Any) -> RecordMetadata:
        """Encode a value as canonical JSON, None as no metadata; raises MetadataError."""
        if value is None:
            return RecordMetadata()
        try:
            text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            return RecordMetadata(MetadataEncoding.JSON, text.encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise MetadataError(f"record metadata: expected JSON values: {error}") from error

    def json(self) -> Any:
        """Return the value of JSON metadata, None for no metadata; raises MetadataError for other encodings."""
        if self.encoding is MetadataEncoding.NONE:
            return None
        if self.encoding is not MetadataEncoding.JSON:
            raise MetadataError(f"record metadata: expected JSON, found {self.encoding.name.lower()}")
        try:
            return json.loads(self.data.decode())
        except (ValueError, RecursionError) as error:
            raise MetadataError(f"record metadata: expected UTF-8 JSON: {error}") from error


_NO_METADATA: Final = RecordMetadata()


class ShardPackEntry(NamedTuple):
    """One named file of a record. `stored` has the bytes as stored in the file, `size` is the decoded size."""

    name: str
    content_type: str
    codec: PackCodec
    size: int
    stored: memoryview
    check: int
    where: str

    def verify(self) -> None:
        """Compare the stored bytes with their checksum, without decoding them; raises ChecksumError."""
        computed = checksum(self.stored)
        if computed != self.check:
            where = self._full_where
            raise ChecksumError(f"{where}: stored bytes: expected 0x{self.check:08x}, computed 0x{computed:08x}")

    def read(self) -> Buffer:
        """Return the decoded bytes, verified; a view without a copy if they are stored uncompressed.

        Raises ChecksumError, CodecError or LimitError with file, record and entry.
        """
        self.verify()
        return decode(self.stored, self.size, self.codec, self._full_where) if self.codec else self.stored

    @property
    def data(self) -> bytes:
        """The decoded bytes, verified, as a copy; read() returns a view where it can."""
        return bytes(self.read())

    @property
    def mime_type(self) -> str:
        """The content type, application/octet-stream if none is stored."""
        return self.content_type or DEFAULT_TYPE

    @property
    def _full_where(self) -> str:
        return f"{self.where}: entry {self.name!r}"


_make_entry: Final = ShardPackEntry._make  # faster than the call


@dataclass(slots=True)
class ShardPackRecord:
    """One record: its key, metadata and entries in stored order; `record["left.jpg"]` returns the bytes of one."""

    key: str
    metadata: RecordMetadata
    entries: tuple[ShardPackEntry, ...]
    where: str = field(default="", compare=False, repr=False)

    def entry(self, name: str) -> ShardPackEntry:
        """Return an entry by its name; raises EntryNotFoundError."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        names = ", ".join(map(repr, self.names()[:10]))
        raise EntryNotFoundError(f"{self.where}: no entry {shown(name)}: expected one of {names or 'none'}")

    def file_entries(self) -> tuple[ShardPackEntry, ...]:
        """Return the entries in stored order, as `entries`."""
        return self.entries

    def names(self) -> list[str]:
        """Return the names of the entries."""
        return [entry.name for entry in self.entries]

    def read(self) -> dict[str, Buffer]:
        """Return the decoded bytes of all entries by name."""
        files: dict[str, Buffer] = {}
        for entry in self.entries:
            name, _, codec, _, stored, check, _ = entry
            files[name] = stored if codec == 0 and checksum(stored) == check else entry.read()
        return files

    def __getitem__(self, name: str) -> bytes:
        """Return the decoded bytes of an entry, verified."""
        return bytes(self.entry(name).read())

    def __contains__(self, name: object) -> bool:
        return any(entry.name == name for entry in self.entries)

    def __iter__(self) -> Iterator[ShardPackEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


FileLocations = Mapping[str, tuple[int, int, int, int]]
"""Start and stop of the stored bytes of each file, its decoded size and its codec."""

LocatedFiles = tuple[int, int, int, str, FileLocations]
"""Start, size and checksum of the bytes that contain all files of a record; the name of the last file; the locations
of all files in these bytes, {} for a single uncompressed file, which fills them. A plain tuple is fastest to unpack."""


class RecordFiles(Mapping[str, "Buffer"]):
    """The files of a record, in bytes that were verified; each is decoded on access."""

    __slots__ = ("_data", "_locations", "_where")

    def __init__(self, data: bytes, locations: FileLocations, where: str) -> None:
        self._data = data
        self._locations = locations
        self._where = where

    def __getitem__(self, name: str) -> Buffer:
        start, stop, size, codec = self._locations[name]
        stored = memoryview(self._data)[start:stop]
        return decode(stored, size, codec, f"{self._where}: entry {name!r}") if codec else stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._locations)

    def __len__(self) -> int:
        return len(self._locations)


def locate_files(record: ShardPackRecord, block: memoryview, start: int) -> LocatedFiles:
    """Return the locations of the files of a verified record; start: offset of its block in the file."""
    locations, file_stop = dict[str, tuple[int, int, int, int]](), 0
    for entry in record.entries:
        texts_size = len(entry.name.encode()) + len(entry.content_type.encode())
        file_start = file_stop + ENTRY_HEADER_SIZE + texts_size if locations else 0
        file_stop = file_start + len(entry.stored)
        locations[entry.name] = (file_start, file_stop, entry.size, entry.codec)
    first = len(block) - file_stop
    is_one_raw_file = len(locations) == 1 and not entry.codec
    return start + first, file_stop, checksum(block[first:]), entry.name, {} if is_one_raw_file else locations


def unpack_key(block: memoryview, header: RecordHeader, where: str) -> str:
    """Return the key that follows a header; raises FormatError."""
    return decode_text(bytes(block[RECORD_HEADER_SIZE : RECORD_HEADER_SIZE + header.key_size]), f"{where}: key")


def unpack_record(block: memoryview, where: str) -> ShardPackRecord:
    """Parse the block of exactly one record; raises FormatError with record and entry."""
    header = RecordHeader.unpack(block, where, len(block))
    key = unpack_key(block, header, where)
    full_where = f"{where} ({key!r})"
    position = header.entries_start
    metadata = _NO_METADATA
    if header.meta_size:
        raw = bytes(block[position - header.meta_size : position])
        metadata = RecordMetadata(MetadataEncoding(header.encoding), raw)
    entries = []
    for number in range(header.entry_count):
        size, stored_size, name_size, type_size, codec, check = EntryHeader.unpack(block, position, full_where, number)
        texts_start = position + ENTRY_HEADER_SIZE
        payload_start = texts_start + name_size + type_size
        position = payload_start + stored_size
        try:
            name, content_type = decode_texts(bytes(block[texts_start:payload_start]), name_size)
        except FormatError as error:
            raise FormatError(f"{full_where}: entry {number}: {error}") from None
        payload = block[payload_start:position]
        entries.append(_make_entry((name, content_type, _CODECS[codec], size, payload, check, full_where)))
    if position != len(block):
        raise FormatError(f"{full_where}: expected its {len(entries)} entries to end at {len(block)}, found {position}")
    if len({entry[0] for entry in entries}) != len(entries):
        repeated = Counter(entry.name for entry in entries).most_common(1)[0][0]
        raise FormatError(f"{full_where}: entry {repeated!r}: expected unique names, found it twice")
    return ShardPackRecord(key, metadata, tuple(entries), full_where)
