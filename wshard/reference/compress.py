"""Compression under the import path and by the names of the format's reference package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wshard.core.container import codec
from wshard.core.container.codec import Codec as Codec
from wshard.core.container.codec import CompressionLevel as CompressionLevel
from wshard.core.container.codec import CompressionType as CompressionType
from wshard.core.container.layout import (
    CODEC_LZ4,
    CODEC_ZSTD,
    ENTRY_COMPRESSED,
    ENTRY_LZ4,
    ENTRY_ZSTD,
    MAX_DECOMPRESS_SIZE,
)
from wshard.errors import LimitError

if TYPE_CHECKING:
    from wshard.core.container.layout import Buffer


BLOCK_FLAG_COMPRESSED: Final = ENTRY_COMPRESSED
BLOCK_FLAG_ZSTD: Final = ENTRY_ZSTD
BLOCK_FLAG_LZ4: Final = ENTRY_LZ4
_WORTH_IT: Final = 64
LZ4_MAX_DECOMPRESS_SIZE: Final = MAX_DECOMPRESS_SIZE
"""The reference package stops at 256 MiB, which the container cores' files may exceed."""


class Compressor:
    """A codec with its level, by method calls."""

    def __init__(
        self,
        compression_type: str = CompressionType.NONE,
        level: int = CompressionLevel.DEFAULT,
    ) -> None:
        self.type = Codec.parse(compression_type).type
        self.level = level

    def compress(self, data: Buffer) -> Buffer:
        """Return the compressed bytes; see the function compress."""
        return compress(data, self.type, self.level)

    def decompress(self, data: Buffer, orig_size: int) -> Buffer:
        """Return the orig_size bytes that were compressed; see the function decompress."""
        return decompress(data, orig_size, self.type)


def compress(
    data: Buffer, compression_type: str = CompressionType.NONE, level: int = CompressionLevel.DEFAULT
) -> Buffer:
    """Return data as one zstd frame or raw lz4 block, even if that is longer; empty data is unchanged.

    Raises CodecError (a ValueError) for an unknown codec or level.
    """
    chosen = Codec.parse(compression_type, level)
    return codec.encode(data, chosen) if len(data) else data


def decompress(data: Buffer, orig_size: int, compression_type: str) -> Buffer:
    """Return the orig_size bytes that were compressed, exactly.

    Raises LimitError for a size that is out of bounds, CodecError for everything else (ValueErrors).
    """
    flags = Codec.parse(compression_type).entry_flags
    if not flags:
        return data
    if orig_size < 0 or (flags & ENTRY_LZ4 and not orig_size):
        raise LimitError(f"decompress: orig_size {orig_size} is out of bounds, expected at least 1")
    return codec.decompress(data, orig_size, flags, "decompress")


def should_compress(block_name: str, data: Buffer) -> bool:  # noqa: ARG001  (the reference's signature)
    """Return True for 64 bytes or more, like the reference package; files compress fewer blocks (FORMAT.md, C-24)."""
    return len(data) >= _WORTH_IT


def compression_byte(ct: str) -> int:
    """Return a codec's number in the file header."""
    return Codec.parse(ct).number


def compression_from_byte(b: int) -> CompressionType:
    """Return the codec of a number in the file header; NONE for unknown ones."""
    return {CODEC_ZSTD: CompressionType.ZSTD, CODEC_LZ4: CompressionType.LZ4}.get(b, CompressionType.NONE)
