"""Bytes of ShardPack files: one class per record type, numbers of codecs and encodings, limits.

No other module of this package contains offsets or magic numbers. The specification is FORMAT.md.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from wshard.core.container.layout import MAX_INDEX_SIZE, MAX_SECTION_SIZE, checksum
from wshard.errors import ChecksumError, CodecError, FormatError, HeaderError, LimitError

if TYPE_CHECKING:
    from wshard.core.container.layout import Buffer

SUFFIX: Final = ".shardpack"
PARTIAL: Final = ".partial"
RECORD_MAGIC: Final = b"SPR1"
MAGIC: Final = b"\x89SPK1\r\n\x1a"
VERSION: Final = (1, 0)
END_MARKER: Final = bytes(8)
FOOTER_SIZE: Final = 64
MIN_SIZE: Final = 80
RECORD_HEADER_SIZE: Final = 32
MIN_RECORD_SIZE: Final = 33
ENTRY_HEADER_SIZE: Final = 32
RECORD_SIZE: Final = struct.Struct("<Q")
COUNT: Final = struct.Struct("<Q")
OFFSET_SIZE: Final = 8
KEY_ROW_SIZE: Final = 16

MAX_KEY_SIZE: Final = 0xFFFF
MAX_NAME_SIZE: Final = 4096
MAX_TYPE_SIZE: Final = 0xFF
MAX_META_SIZE: Final = MAX_SECTION_SIZE
MAX_ENTRY_SIZE: Final = 1 << 32  # decoded
MAX_ENTRIES: Final = 1_000_000  # of a record

_RECORD: Final = struct.Struct("<Q4sIIIBBHI")
_ENTRY: Final = struct.Struct("<QQIHBBII")
_FOOTER: Final = struct.Struct("<QQQQQIIHHI8s")
_CHECKED_SIZE: Final = 28  # bytes of a record or entry header before its checksum
_FOOTER_CHECKED_SIZE: Final = 52
_REFUSED_FLAGS: Final = 0xFFFF  # the low half; unknown bits of the high half are ignored


class PackCodec(IntEnum):
    """Compression codec of an entry."""

    NONE = 0
    GZIP = 1
    LZ4 = 2
    ZSTD = 3


class MetadataEncoding(IntEnum):
    """Encoding of the metadata bytes of a record."""

    NONE = 0
    JSON = 1
    MSGPACK = 2
    OPAQUE = 255


_LAST_CODEC: Final = int(max(PackCodec))
_ENCODINGS: Final = frozenset(MetadataEncoding)


class RecordHeader(NamedTuple):
    """The 32 bytes at the start of a record; the key and the metadata follow, then the entries."""

    record_size: int
    entry_count: int
    key_size: int
    meta_size: int
    encoding: int

    def pack(self, key: bytes, metadata: bytes) -> bytes:
        """Return header, key and metadata."""
        fields = (self.record_size, RECORD_MAGIC, self.entry_count, self.key_size, self.meta_size, self.encoding, 0, 0)
        head = _RECORD.pack(*fields, 0)[:_CHECKED_SIZE]
        check = checksum(metadata, checksum(key, checksum(head)))
        return b"".join((head, check.to_bytes(4, "little"), key, metadata))

    @staticmethod
    def unpack(block: memoryview, where: str, size: int | None = None) -> RecordHeader:
        """Read and check the header at the start of `block`, which must include key and metadata.

        size: the expected size of the record. Raises FormatError.
        """
        header, check = RecordHeader.peek(block, where, size)
        end = RECORD_HEADER_SIZE + header.key_size + header.meta_size
        if end > len(block):
            raise FormatError(f"{where}: expected {end} bytes of header, key and metadata, found {len(block)}")
        computed = checksum(block[RECORD_HEADER_SIZE:end], checksum(block[:_CHECKED_SIZE]))
        if computed != check:
            raise ChecksumError(f"{where}: header checksum: stored 0x{check:08x}, computed 0x{computed:08x}")
        return header

    @staticmethod
    def peek(block: memoryview, where: str, size: int | None = None) -> tuple[RecordHeader, int]:
        """Return the fields, checked for consistency, and the stored checksum, not yet compared."""
        if len(block) < RECORD_HEADER_SIZE:
            raise FormatError(f"{where}: expected a header of {RECORD_HEADER_SIZE} bytes, found {len(block)}")
        record_size, magic, count, key_size, meta_size, encoding, flags, reserved, check = _RECORD.unpack_from(block)
        if magic != RECORD_MAGIC:
            raise FormatError(f"{where}: magic: expected {RECORD_MAGIC!r}, found {magic!r}")
        if size is not None and record_size != size:
            raise FormatError(f"{where}: record size: expected {size}, as the index says, found {record_size}")
        if not 1 <= key_size <= MAX_KEY_SIZE:
            raise FormatError(f"{where}: key: expected 1 to {MAX_KEY_SIZE} bytes, found {key_size}")
        if meta_size > MAX_META_SIZE:
            raise LimitError(f"{where}: metadata of {meta_size} bytes: expected at most {MAX_META_SIZE}")
        if encoding not in _ENCODINGS or (encoding == 0) != (meta_size == 0):
            raise FormatError(f"{where}: expected a known metadata encoding, found {encoding} with {meta_size} bytes")
        if flags or reserved:
            raise FormatError(f"{where}: expected flags and reserved bytes of 0, found {flags} and {reserved}")
        if count > MAX_ENTRIES:
            raise LimitError(f"{where}: {count} entries: expected at most {MAX_ENTRIES}")
        min_size = RECORD_HEADER_SIZE + key_size + meta_size + count * (ENTRY_HEADER_SIZE + 1)
        if record_size < min_size:
            raise FormatError(f"{where}: record size: expected at least {min_size}, found {record_size}")
        return RecordHeader(record_size, count, key_size, meta_size, encoding), check

    @property
    def entries_start(self) -> int:
        """Offset of the first entry in the record."""
        return RECORD_HEADER_SIZE + self.key_size + self.meta_size


class EntryHeader(NamedTuple):
    """The 32 bytes at the start of an entry; name, content type and stored bytes follow."""

    size: int
    stored_size: int
    name_size: int
    type_size: int
    codec: int
    payload_check: int

    def pack(self, name: bytes, content_type: bytes) -> bytes:
        """Return header, name and content type."""
        head = _ENTRY.pack(*self[:5], 0, self.payload_check, 0)[:_CHECKED_SIZE]
        check = checksum(content_type, checksum(name, checksum(head)))
        return b"".join((head, check.to_bytes(4, "little"), name, content_type))

    @staticmethod
    def unpack(block: memoryview, start: int, where: str, number: int) -> tuple[int, int, int, int, int, int]:
        """Read and check the header of entry `number`, which begins at `start` of a record; raises FormatError.

        Returns the fields as a plain tuple: a record may have many small entries.
        """
        name_start = start + ENTRY_HEADER_SIZE
        if name_start > len(block):
            raise FormatError(f"{where}: entry {number}: expected it inside the record of {len(block)} bytes")
        size, stored, name_size, type_size, codec, flags, payload_check, check = _ENTRY.unpack_from(block, start)
        payload_start = name_start + name_size + type_size
        if payload_start + stored > len(block):
            raise FormatError(f"{where}: entry {number}: {stored} stored bytes run past the record of {len(block)}")
        computed = checksum(block[name_start:payload_start], checksum(block[start : start + _CHECKED_SIZE]))
        if computed != check:
            raise ChecksumError(f"{where}: entry {number}: header: stored 0x{check:08x}, computed 0x{computed:08x}")
        if codec > _LAST_CODEC:
            raise CodecError(f"{where}: entry {number}: codec: expected 0 to {_LAST_CODEC}, found {codec}")
        if flags:
            raise FormatError(f"{where}: entry {number}: flags: expected 0, found {flags}")
        if not 0 < name_size <= MAX_NAME_SIZE or type_size > MAX_TYPE_SIZE:
            raise FormatError(
                f"{where}: entry {number}: name and content type: expected 1 to {MAX_NAME_SIZE} and at most "
                f"{MAX_TYPE_SIZE} bytes, found {name_size} and {type_size}"
            )
        if codec == 0 and size != stored:
            raise FormatError(f"{where}: entry {number}: stored raw in {stored} bytes, but file_size is {size}")
        return size, stored, name_size, type_size, codec, payload_check


class PackFooter(NamedTuple):
    """The last 64 bytes of a file."""

    index_offset: int
    record_count: int
    key_table_size: int
    metadata_size: int
    file_size: int
    index_check: int

    def pack(self) -> bytes:
        """Return the 64 bytes."""
        head = _FOOTER.pack(*self, 0, *VERSION, 0, b"")[:_FOOTER_CHECKED_SIZE]
        return b"".join((head, checksum(head).to_bytes(4, "little"), MAGIC))

    @staticmethod
    def unpack(data: Buffer, size: int, where: str) -> PackFooter:
        """Read and check the footer of a file of `size` bytes; raises HeaderError, ChecksumError, LimitError."""
        if size < MIN_SIZE or len(data) != FOOTER_SIZE:
            raise HeaderError(f"{where}: expected at least {MIN_SIZE} bytes, found {size}")
        *fields, flags, major, minor, check, magic = _FOOTER.unpack(data)
        if magic != MAGIC:
            raise HeaderError(f"{where}: expected the magic {MAGIC!r} at the end, found {magic!r}: cut or another file")
        computed = checksum(memoryview(data)[:_FOOTER_CHECKED_SIZE])
        if computed != check:
            raise ChecksumError(f"{where}: footer: stored 0x{check:08x}, computed 0x{computed:08x}")
        if major != VERSION[0]:
            raise HeaderError(f"{where}: version: expected {VERSION[0]}, found {major}.{minor}")
        if flags & _REFUSED_FLAGS:
            raise HeaderError(f"{where}: expected no flag that must be understood, found 0x{flags:08x}")
        footer = PackFooter(*fields)
        footer.check(size, where)
        return footer

    def check(self, size: int, where: str) -> None:
        """Check the sizes against each other and the file size; raises HeaderError, LimitError."""
        if self.file_size != size:
            raise HeaderError(f"{where}: expected {self.file_size} bytes, as the footer says, found {size}")
        if self.key_table_size not in (0, KEY_ROW_SIZE * self.record_count):
            raise HeaderError(
                f"{where}: key table: expected 0 or {KEY_ROW_SIZE * self.record_count} bytes, "
                f"found {self.key_table_size}"
            )
        end = self.index_offset + self.index_size + FOOTER_SIZE
        if end != size or self.index_offset < len(END_MARKER):
            raise HeaderError(f"{where}: index at {self.index_offset}: expected its end at {size}, found {end}")
        if self.index_size > MAX_INDEX_SIZE or self.metadata_size > MAX_SECTION_SIZE:
            raise LimitError(
                f"{where}: index of {self.index_size} bytes with {self.metadata_size} bytes of metadata: expected at "
                f"most {MAX_INDEX_SIZE} and {MAX_SECTION_SIZE}"
            )

    @property
    def index_size(self) -> int:
        """Size of the index in bytes."""
        return COUNT.size + OFFSET_SIZE * self.record_count + self.key_table_size + self.metadata_size
