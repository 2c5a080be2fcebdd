"""Bytes of the Shard container: one struct per record type, flags, limits, hash and checksum.

No other module spells an offset or a magic number.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import crc32c as _crc32c
import xxhash

from wshard.errors import HeaderError, LimitError

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

MAGIC: Final = b"SHRD"
VERSION: Final = 2
HEADER_SIZE: Final = 64
INDEX_ENTRY_SIZE: Final = 48
ALIGNMENTS: Final = (0, 16, 32, 64)
DEFAULT_ALIGNMENT: Final = 64

ROLE_UNKNOWN: Final = 0
ROLE_MOSH: Final = 1
ROLE_SAMPLE: Final = 2
ROLE_GEMMPANEL: Final = 3
ROLE_MANIFEST: Final = 4
ROLE_WSHARD: Final = 5
ROLE_UMSH: Final = 6
ROLE_COLUMN: Final = 8

FLAG_COMPRESSED: Final = 0x0001
FLAG_LITTLE_ENDIAN: Final = 0x0002
FLAG_HAS_SCHEMA: Final = 0x0010
FLAG_HAS_CHECKSUMS: Final = 0x0020
FLAG_STREAMING: Final = 0x0040
FLAG_HAS_CONTENT_TYPES: Final = 0x0080
KNOWN_FLAGS: Final = (  # those that writers set
    *(FLAG_COMPRESSED, FLAG_LITTLE_ENDIAN, FLAG_HAS_SCHEMA, FLAG_HAS_CHECKSUMS, FLAG_STREAMING, FLAG_HAS_CONTENT_TYPES),
)

ENTRY_COMPRESSED: Final = 0x0001
ENTRY_ZSTD: Final = 0x0002
ENTRY_LZ4: Final = 0x0004
ENTRY_CHUNKED: Final = 0x0008
ENTRY_KNOWN_FLAGS: Final = ENTRY_COMPRESSED | ENTRY_ZSTD | ENTRY_LZ4 | ENTRY_CHUNKED

CODEC_NONE: Final = 0
CODEC_ZSTD: Final = 1
CODEC_LZ4: Final = 2

CONTENT_UNKNOWN: Final = 0
CONTENT_JSON: Final = 2
CONTENT_TYPES: Final = (  # the index of a word is its number
    *("unknown", "tensor", "json", "cowrie", "glyph", "text", "image", "audio", "video", "proto", "blob", "qmln"),
    *("tensor_v3", "anchor_shared", "delta_expert", "codebook_shared", "expert_indices", "column"),
)

MAX_TAGS: Final = 16  # of a tag dictionary: bit i of an entry's tags stands for its i-th word

MAX_ENTRY_COUNT: Final = 10_000_000
MAX_INDEX_SIZE: Final = 1 << 30
MAX_STRING_TABLE_SIZE: Final = 100 * 1024 * 1024
MAX_DECOMPRESS_SIZE: Final = 1 << 30
MAX_LZ4_WRITE_SIZE: Final = 1 << 28  # the episode packages refuse larger lz4 blocks
MAX_NAME_SIZE: Final = 0xFFFF
MAX_META_SIZE: Final = 1 << 24  # of one JSON block of an episode
MAX_SECTION_SIZE: Final = 1 << 26  # of the JSON section of a container

_HEADER: Final = struct.Struct("<4sBBHBBHIQQQQ16s")
INDEX_ENTRY: Final = struct.Struct("<QIHHQQQIHH")
DATA_OFFSET_FIELD: Final = 4  # the position of data_offset among the fields of an index entry

# A block of encoded images starts with T + 1 offsets: the starts of its T images, and the end of the last one.
IMAGE_OFFSET: Final = struct.Struct("<Q")

# A recording in progress (.partial) is a journal of framed records: kind, timesteps, payload size, and the CRC32C of
# those three fields and the payload.
JOURNAL_MAGIC: Final = b"WSJ1"
JOURNAL_HEAD: Final = struct.Struct("<4sIQ")
JOURNAL_CHECKSUM: Final = struct.Struct("<I")
FRAME_SIZE: Final = struct.Struct("<I")  # of an encoded frame in the rows of a flush
JOURNAL_DESCRIPTION: Final = b"DESC"
JOURNAL_LANES: Final = b"LANE"
JOURNAL_ROWS: Final = b"ROWS"

# A block of several zstd frames ends with the seek table of the zstd seekable format, in a frame that decoders skip.
SEEK_HEAD: Final = struct.Struct("<II")  # magic of the skippable frame, size of what follows
SEEK_ENTRY: Final = struct.Struct("<III")  # stored size, decoded size, low half of the XXH64 of the decoded bytes
SEEK_FOOT: Final = struct.Struct("<IBI")  # number of frames, descriptor, magic
SEEK_SKIPPABLE_MAGIC: Final = 0x184D2A5E
SEEK_MAGIC: Final = 0x8F92EAB1
SEEK_CHECKSUMS: Final = 0x80  # the descriptor of a table with checksums


checksum: Final = _crc32c.crc32c
"""The CRC32C (Castagnoli) of bytes; an optional second argument is the checksum of the bytes before them."""


class Header(NamedTuple):
    """The 64-byte header; sizes and offsets in bytes from the start of the file."""

    role: int
    flags: int
    alignment: int
    compression_default: int
    entry_count: int
    string_table_offset: int
    data_section_offset: int
    schema_offset: int
    total_file_size: int

    def __call__(self) -> Header:
        """Return itself: `reader.header` and the reference package's `reader.header()` are the same."""
        return self

    @property
    def magic(self) -> bytes:
        """The first four bytes of every file that is read."""
        return MAGIC

    @property
    def version(self) -> int:
        """The version of every file that is read."""
        return VERSION

    @property
    def index_entry_size(self) -> int:
        """Bytes of an index entry."""
        return INDEX_ENTRY_SIZE

    def pack(self) -> bytes:
        """Return the 64 bytes."""
        return _HEADER.pack(
            MAGIC,
            VERSION,
            self.role,
            self.flags,
            self.alignment,
            self.compression_default,
            INDEX_ENTRY_SIZE,
            self.entry_count,
            self.string_table_offset,
            self.data_section_offset,
            self.schema_offset,
            self.total_file_size,
            bytes(16),
        )


class IndexEntry(NamedTuple):
    """One named block; data_offset is absolute, checksum is the CRC32C of the decoded bytes."""

    name: str
    flags: int
    data_offset: int
    disk_size: int
    orig_size: int
    checksum: int
    content_type: int = CONTENT_UNKNOWN
    tag_bits: int = 0
    name_hash: int | None = None  # as stored; None = not read from a file
    name_offset: int | None = None  # likewise, within the string table

    @property
    def name_len(self) -> int:
        """Bytes of the name's UTF-8."""
        return len(self.name.encode(errors="surrogatepass"))

    @property
    def reserved(self) -> int:
        """Content type in the low 16 bits, tags in the high ones, as stored."""
        return self.tag_bits << 16 | self.content_type

    @property
    def compressed(self) -> bool:
        """True if the stored bytes are compressed."""
        return bool(self.flags & ENTRY_COMPRESSED)

    @property
    def span(self) -> tuple[int, int]:
        """Where the stored bytes begin and end in the file."""
        return self.data_offset, self.data_offset + self.disk_size

    def has_tag_bit(self, bit: int) -> bool:
        """Return True if the entry has the tag with this index (0-15) in the tag dictionary."""
        return 0 <= bit < MAX_TAGS and bool(self.tag_bits >> bit & 1)


def name_hash(name: str) -> int:
    """Return the xxHash64 (seed 0) of the UTF-8 name."""
    return xxhash.xxh64_intdigest(name.encode(errors="surrogatepass"))


def round_up(value: int, alignment: int) -> int:
    """Return the next multiple of alignment; 0 means no rounding."""
    return value if alignment == 0 else -(-value // alignment) * alignment


def unpack_header(data: Buffer, size: int, where: str, *, whole: bool = True) -> Header:
    """Read and check the header of a file of `size` bytes.

    Every count and offset is compared with the actual size before anything is allocated. whole: the file must have the
    size stated in its header. Raises HeaderError or LimitError; `where` names the file in messages.
    """
    if size < HEADER_SIZE or len(data) < HEADER_SIZE:
        raise HeaderError(f"{where}: Data too short: expected at least {HEADER_SIZE} bytes, found {size}")
    fields = _HEADER.unpack_from(data)
    magic, version, role, flags, alignment, codec, entry_size, count, strings, section, schema, total, _ = fields
    if magic != MAGIC:
        raise HeaderError(f"{where}: Invalid W-SHARD magic: expected {MAGIC!r} at offset 0, found {magic!r}")
    if version != VERSION:
        raise HeaderError(f"{where}: Unsupported W-SHARD version: expected {VERSION} at offset 4, found {version}")
    if entry_size != INDEX_ENTRY_SIZE:
        raise HeaderError(f"{where}: index entry size: expected {INDEX_ENTRY_SIZE} at offset 10, found {entry_size}")
    if count > MAX_ENTRY_COUNT:
        raise LimitError(f"{where}: entry count at offset 12: expected at most {MAX_ENTRY_COUNT}, found {count}")
    if whole and total != size:
        left = "`wshard repair` saves the intact blocks" if section < size else "no block of it is left"
        raise HeaderError(f"{where}: total file size at offset 40 says {total} bytes, the file has {size}: {left}")
    index_end = HEADER_SIZE + count * INDEX_ENTRY_SIZE
    if not index_end <= strings <= section <= size:
        raise HeaderError(
            f"{where}: expected index end <= string table <= data section <= file size, "
            f"found {index_end}, {strings}, {section}, {size}"
        )
    if section - strings > MAX_STRING_TABLE_SIZE:
        raise LimitError(f"{where}: string table of {section - strings} bytes, limit {MAX_STRING_TABLE_SIZE}")
    return Header(role, flags, alignment, codec, count, strings, section, schema, total)
