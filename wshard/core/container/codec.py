"""Codecs: their table, bounded decoding, and the rule for when compression pays off."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final

import lz4.block
import zstandard

from wshard.core.container.layout import (
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_ZSTD,
    ENTRY_COMPRESSED,
    ENTRY_LZ4,
    ENTRY_ZSTD,
    MAX_DECOMPRESS_SIZE,
    MAX_LZ4_WRITE_SIZE,
)
from wshard.errors import CodecError, LimitError

if TYPE_CHECKING:
    from wshard.core.container.layout import Buffer

MIN_COMPRESS_SIZE: Final = 256
SAVINGS: Final = (9, 10)  # a block that shrinks less than this is stored raw: decoding would cost more than it saves
_ZSTD_MAX_EXPANSION: Final = 1 << 15  # one 128 KiB block costs at least 4 bytes
_LZ4_MAX_EXPANSION: Final = 255
_ZSTD_MAX_LEVEL: Final = 22
_ZSTD_BEST_LEVEL: Final = 19


class CompressionType(StrEnum):
    """The codecs of the container."""

    NONE = "none"
    ZSTD = "zstd"
    LZ4 = "lz4"


class CompressionLevel(int, Enum):
    """Named compression effort; for zstd levels 1, 3 and 19. Any level 1-22 may be given as an int instead."""

    FASTEST = 1
    DEFAULT = 3
    BEST = 9


@dataclass(frozen=True)
class Codec:
    """One codec with its level, e.g. Codec.parse("zstd:19")."""

    type: CompressionType = CompressionType.NONE
    level: int = CompressionLevel.DEFAULT

    @staticmethod
    def parse(text: str | CompressionType | Codec, level: int | None = None) -> Codec:
        """Parse "none", "zstd", "lz4" or "zstd:LEVEL"; raises CodecError (a ValueError) for anything else."""
        if isinstance(text, Codec):
            return text
        name, _, suffix = str(text).partition(":")
        try:
            codec_type = CompressionType(name)
            effort = int(suffix) if suffix else _effort(level or CompressionLevel.DEFAULT)
        except ValueError:
            raise CodecError(f"compression: expected none, zstd, lz4 or zstd:LEVEL, found {text!r}") from None
        if not 1 <= effort <= _ZSTD_MAX_LEVEL:
            raise CodecError(f"compression: expected a level from 1 to {_ZSTD_MAX_LEVEL}, found {effort}")
        return Codec(codec_type, effort)

    @property
    def number(self) -> int:
        """The codec's number in the header byte compression_default."""
        return {CompressionType.NONE: CODEC_NONE, CompressionType.ZSTD: CODEC_ZSTD, CompressionType.LZ4: CODEC_LZ4}[
            self.type
        ]

    @property
    def entry_flags(self) -> int:
        """The index flags of a block stored with this codec."""
        return {
            CompressionType.NONE: 0,
            CompressionType.ZSTD: ENTRY_COMPRESSED | ENTRY_ZSTD,
            CompressionType.LZ4: ENTRY_COMPRESSED | ENTRY_LZ4,
        }[self.type]

    @property
    def buffers(self) -> int:
        """Maximum number of buffers of a block's size during compression: liblz4's binding copies its result."""
        return {CompressionType.NONE: 0, CompressionType.ZSTD: 1, CompressionType.LZ4: 2}[self.type]


def _effort(level: int) -> int:
    return _ZSTD_BEST_LEVEL if level is CompressionLevel.BEST else int(level)


def encode(data: Buffer, codec: Codec) -> Buffer:
    """Return the compressed bytes, whether that pays or not."""
    if codec.type is CompressionType.ZSTD:
        return zstandard.ZstdCompressor(level=codec.level, write_content_size=True).compress(data)
    if codec.type is CompressionType.NONE:
        return data
    fast = codec.level <= CompressionLevel.FASTEST
    options = {"mode": "fast"} if fast else {"mode": "high_compression", "compression": 9}
    packed: bytes = lz4.block.compress(data, store_size=False, **options)
    return packed


def compress(data: Buffer, codec: Codec) -> Buffer | None:
    """Return the compressed bytes, or None if compression does not pay off (the keep rule)."""
    size = len(data)
    max_size = MAX_LZ4_WRITE_SIZE if codec.type is CompressionType.LZ4 else MAX_DECOMPRESS_SIZE
    if codec.type is CompressionType.NONE or not MIN_COMPRESS_SIZE <= size <= max_size:
        return None
    packed = encode(data, codec)
    return packed if pays(len(packed), size) else None


def pays(stored: int, size: int) -> bool:
    """Return True if a block of `size` bytes that compresses to `stored` is stored compressed."""
    numerator, denominator = SAVINGS
    return stored < size * numerator // denominator


def decompress(data: Buffer, orig_size: int, flags: int, where: str) -> Buffer:
    """Decode one block to exactly orig_size bytes, never producing more.

    flags: the entry's codec bits. Raises LimitError for sizes that the codec cannot honestly reach, CodecError for
    everything else; `where` names file and block.
    """
    if orig_size > MAX_DECOMPRESS_SIZE:
        raise LimitError(f"{where}: orig_size {orig_size} is out of bounds, limit {MAX_DECOMPRESS_SIZE}")
    if not orig_size and not len(data):
        return b""
    expansion = _LZ4_MAX_EXPANSION if flags & ENTRY_LZ4 else _ZSTD_MAX_EXPANSION
    if orig_size > (len(data) + 64) * expansion:
        raise LimitError(f"{where}: {len(data)} stored bytes cannot hold orig_size {orig_size}: out of bounds")
    decode = _decode_lz4 if flags & ENTRY_LZ4 else _decode_zstd
    try:
        decoded = decode(data, orig_size, where)
    except MemoryError:
        raise LimitError(f"{where}: its {orig_size} decompressed bytes do not fit into memory") from None
    if len(decoded) != orig_size:
        raise CodecError(f"{where}: expected {orig_size} decompressed bytes, found {len(decoded)}")
    return decoded


def _decode_zstd(data: Buffer, orig_size: int, where: str) -> Buffer:
    try:
        claimed = zstandard.get_frame_parameters(data).content_size
        if not orig_size and claimed in (0, zstandard.CONTENTSIZE_UNKNOWN):
            return _decode_frames(data, orig_size, where)  # the call below would take 0 for no limit
        if claimed in (orig_size, zstandard.CONTENTSIZE_UNKNOWN):
            decoded = zstandard.ZstdDecompressor().decompress(data, max_output_size=orig_size)
            if len(decoded) == orig_size:
                return decoded
        elif claimed > orig_size:
            raise CodecError(f"{where}: zstd frame says {claimed} bytes, the index says {orig_size}")
        return _decode_frames(data, orig_size, where)
    except zstandard.ZstdError as error:
        raise CodecError(f"{where}: zstd: {error}") from error


def _decode_frames(data: Buffer, orig_size: int, where: str) -> Buffer:
    """Decode concatenated frames, and pass over those that are meant to be skipped."""
    decoded, filled = memoryview(bytearray(orig_size)), 0
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as frames:
        while filled < orig_size and (count := frames.readinto(decoded[filled:])):
            filled += count
        if filled == orig_size and frames.read(1):
            raise CodecError(f"{where}: zstd frames hold more than the {orig_size} bytes that the index says")
    return decoded[:filled].toreadonly()


def _decode_lz4(data: Buffer, orig_size: int, where: str) -> bytes:
    try:
        if not orig_size:  # which liblz4's binding takes for no size
            return _decode_lz4_without_end_rule(bytes(data), orig_size, where)
        return bytes(lz4.block.decompress(data, uncompressed_size=orig_size))
    except (lz4.block.LZ4BlockError, ValueError):
        # The TypeScript encoder breaks the end-of-block rule that liblz4 insists on; its blocks are otherwise valid.
        return _decode_lz4_without_end_rule(bytes(data), orig_size, where)


def _decode_lz4_without_end_rule(data: bytes, orig_size: int, where: str) -> bytes:
    out, position = bytearray(), 0
    try:
        while position < len(data) and len(out) <= orig_size:
            token = data[position]
            count, position = _lz4_length(data, position + 1, token >> 4)
            if position + count > len(data):
                raise CodecError(f"{where}: lz4: literals run past the block")
            out += data[position : position + count]
            position += count
            if position >= len(data) or len(out) > orig_size:
                break
            distance = int.from_bytes(data[position : position + 2], "little")
            count, position = _lz4_length(data, position + 2, token & 15)
            if distance == 0 or distance > len(out):
                raise CodecError(f"{where}: lz4: match {distance} bytes back of {len(out)}")
            count = min(count + 4, orig_size + 1 - len(out))
            start = len(out) - distance
            window = bytes(out[start : start + count])  # no more than is copied: a match may lie far back
            out += (window * -(-count // len(window)))[:count] if count else b""
    except IndexError:
        raise CodecError(f"{where}: lz4: block ends inside a length") from None
    return bytes(out)


def _lz4_length(data: bytes, position: int, nibble: int) -> tuple[int, int]:
    length = nibble
    if nibble == 15:
        while True:
            step = data[position]
            position += 1
            length += step
            if step != 255:
                break
    return length, position
