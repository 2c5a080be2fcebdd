"""One record of a ShardPack and its entries, parsed from the bytes of its block; payloads are decoded when read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wshard.container.layout import checksum
from wshard.errors import ChecksumError, EntryNotFoundError, FormatError, MetadataError
from wshard.messages import shown
from wshard.shardpack.codecs import decode
from wshard.shardpack.layout import (
    ENTRY_HEADER_SIZE,
    RECORD_HEADER_SIZE,
    EntryHeader,
    MetadataEncoding,
    PackCodec,
    RecordHeader,
)
from wshard.shardpack.names import DEFAULT_TYPE, decode_text, decode_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.container.layout import Buffer

_CODEC: Final = {int(codec): codec for codec in PackCodec}  # quicker than the call


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
        found = checksum(self.stored)
        if found != self.check:
            raise ChecksumError(f"{self._at}: stored bytes: expected 0x{self.check:08x}, computed 0x{found:08x}")

    def read(self) -> Buffer:
        """Return the decoded bytes, verified; a view without a copy if they are stored uncompressed.

        Raises ChecksumError, CodecError or LimitError with file, record and entry.
        """
        self.verify()
        return decode(self.stored, self.size, self.codec, self._at) if self.codec else self.stored

    @property
    def mime_type(self) -> str:
        """The content type, application/octet-stream if none is stored."""
        return self.content_type or DEFAULT_TYPE

    @property
    def _at(self) -> str:
        return f"{self.where}: entry {self.name!r}"


_ENTRY: Final = ShardPackEntry._make  # quicker than the call


@dataclass(slots=True)
class ShardPackRecord:
    """One record: its key, metadata and entries in stored order; `record["left.jpg"]` returns the bytes of one."""

    key: str
    metadata: RecordMetadata
    entries: tuple[ShardPackEntry, ...]
    where: str = field(default="", compare=False, repr=False)

    def entry(self, name: str) -> ShardPackEntry:
        """Return an entry by its name; raises EntryNotFoundError."""
        for found in self.entries:
            if found.name == name:
                return found
        names = ", ".join(map(repr, self.names()[:10]))
        raise EntryNotFoundError(f"{self.where}: no entry {shown(name)}: expected one of {names or 'none'}")

    def names(self) -> list[str]:
        """Return the names of the entries."""
        return [found.name for found in self.entries]

    def read(self) -> dict[str, Buffer]:
        """Return the decoded bytes of all entries by name."""
        files: dict[str, Buffer] = {}
        for found in self.entries:
            name, _, codec, _, stored, check, _ = found
            files[name] = stored if codec == 0 and checksum(stored) == check else found.read()
        return files

    def __getitem__(self, name: str) -> bytes:
        """Return the decoded bytes of an entry, verified."""
        return bytes(self.entry(name).read())

    def __contains__(self, name: object) -> bool:
        return any(found.name == name for found in self.entries)

    def __iter__(self) -> Iterator[ShardPackEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


Places = Mapping[str, tuple[int, int, int, int]]
"""Start and stop of the stored bytes of each file, its decoded size and its codec."""

LocatedFiles = tuple[int, int, int, str, Places]
"""Start, size and checksum of the bytes with all files of a record; the name of the last, and the places of all in
these bytes, which are empty where they are one file, uncompressed. A plain tuple is unpacked quickest."""


class RecordFiles(Mapping[str, "Buffer"]):
    """The files of a record out of bytes that were verified; each is decoded when it is asked for."""

    __slots__ = ("_data", "_places", "_where")

    def __init__(self, data: bytes, places: Places, where: str) -> None:
        self._data = data
        self._places = places
        self._where = where

    def __getitem__(self, name: str) -> Buffer:
        start, stop, size, codec = self._places[name]
        stored = memoryview(self._data)[start:stop]
        return decode(stored, size, codec, f"{self._where}: entry {name!r}") if codec else stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def locate_files(record: ShardPackRecord, block: memoryview, start: int) -> LocatedFiles:
    """Return where the files of a verified record are, whose block begins at `start` of the file."""
    places, end = dict[str, tuple[int, int, int, int]](), 0
    for entry in record.entries:
        texts = len(entry.name.encode()) + len(entry.content_type.encode())
        begin = end + ENTRY_HEADER_SIZE + texts if places else 0
        end = begin + len(entry.stored)
        places[entry.name] = (begin, end, entry.size, entry.codec)
    first = len(block) - end
    whole = len(places) == 1 and not entry.codec
    return start + first, end, checksum(block[first:]), entry.name, {} if whole else places


def unpack_key(block: memoryview, header: RecordHeader, where: str) -> str:
    """Return the key that follows a header; raises FormatError."""
    return decode_text(bytes(block[RECORD_HEADER_SIZE : RECORD_HEADER_SIZE + header.key_size]), f"{where}: key")


def unpack_record(block: memoryview, where: str) -> ShardPackRecord:
    """Parse the block of exactly one record; raises FormatError with record and entry."""
    header = RecordHeader.unpack(block, where, len(block))
    key = unpack_key(block, header, where)
    here = f"{where} ({key!r})"
    position = header.entries_start
    metadata = _NO_METADATA
    if header.meta_size:
        raw = bytes(block[position - header.meta_size : position])
        metadata = RecordMetadata(MetadataEncoding(header.encoding), raw)
    entries = []
    for number in range(header.entry_count):
        size, stored, name_size, type_size, codec, check = EntryHeader.unpack(block, position, here, number)
        text = position + ENTRY_HEADER_SIZE
        payload = text + name_size + type_size
        position = payload + stored
        try:
            name, content_type = decode_texts(bytes(block[text:payload]), name_size)
        except FormatError as error:
            raise FormatError(f"{here}: entry {number}: {error}") from None
        entries.append(_ENTRY((name, content_type, _CODEC[codec], size, block[payload:position], check, here)))
    if position != len(block):
        raise FormatError(f"{here}: expected its {len(entries)} entries to end at {len(block)}, found {position}")
    if len({entry[0] for entry in entries}) != len(entries):
        twice = Counter(entry.name for entry in entries).most_common(1)[0][0]
        raise FormatError(f"{here}: entry {twice!r}: expected unique names, found it twice")
    return ShardPackRecord(key, metadata, tuple(entries), here)
