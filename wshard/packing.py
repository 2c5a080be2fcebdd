"""Blocks as they are stored: compressed where that pays, in frames where that was asked for, with their checksum.

Knows: what becomes of a block's bytes. Does not know: files, places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wshard.codec import Codec, CompressionType, compress
from wshard.layout import CONTENT_UNKNOWN, IndexEntry, checksum
from wshard.seekable import compress_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wshard.layout import Buffer

    Payload = Buffer | Sequence[Buffer]


class Block(NamedTuple):
    """A block to write: pieces of bytes that are stored one after the other; frame_size in decoded bytes, 0 = one."""

    name: str
    data: Sequence[Buffer]
    codec: Codec
    content_type: int = CONTENT_UNKNOWN
    frame_size: int = 0

    @staticmethod
    def of(
        name: str, data: Payload, codec: Codec, content_type: int = CONTENT_UNKNOWN, *, frame_size: int = 0
    ) -> Block:
        """Return a block of one bytes-like payload, or of a sequence of them."""
        pieces = (data,) if isinstance(data, (bytes, bytearray, memoryview)) else data
        return Block(name, pieces, codec, content_type, frame_size)

    def pieces(self) -> Iterator[memoryview]:
        """Yield the pieces that hold anything, as bytes."""
        return (memoryview(piece).cast("B") for piece in self.data if len(piece))


def pack_block(block: Block) -> tuple[IndexEntry, Iterable[Buffer]]:
    """Return a block's index entry, without its place and tags, and the pieces to store."""
    size, crc = 0, 0
    for piece in block.pieces():
        size, crc = size + len(piece), checksum(piece, crc)
    packed = _compressed(block, size)
    if packed is None:
        return IndexEntry(block.name, 0, 0, size, size, crc, block.content_type), block.pieces()
    return IndexEntry(block.name, block.codec.entry_flags, 0, len(packed), size, crc, block.content_type), (packed,)


def _compressed(block: Block, size: int) -> Buffer | None:
    if not block.codec.entry_flags:
        return None
    whole = next(block.pieces(), b"") if len(block.data) == 1 else b"".join(block.pieces())
    if 0 < block.frame_size < size and block.codec.type is CompressionType.ZSTD:
        return compress_frames(whole, block.codec, block.frame_size)
    return compress(whole, block.codec)
