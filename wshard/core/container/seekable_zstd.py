"""Blocks of several zstd frames with a seek table, in the zstd seekable format; every zstd decoder reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
import zstandard

from wshard.core.container.codec import MIN_COMPRESS_SIZE, Codec, decompress, pays
from wshard.core.container.layout import (
    ENTRY_ZSTD,
    MAX_DECOMPRESS_SIZE,
    SEEK_CHECKSUMS,
    SEEK_ENTRY,
    SEEK_FOOT,
    SEEK_HEAD,
    SEEK_MAGIC,
    SEEK_SKIPPABLE_MAGIC,
)
from wshard.errors import ChecksumError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wshard.core.container.layout import Buffer

    Read = Callable[[int, int], Buffer]


def compress_frames(data: Buffer, codec: Codec, frame_size: int) -> Buffer | None:
    """Return zstd frames of frame_size decoded bytes each (the last may be shorter) and their seek table.

    None if that does not pay off (the keep rule). Needs no more memory than the result.
    """
    size = len(data)
    if not MIN_COMPRESS_SIZE <= size <= MAX_DECOMPRESS_SIZE:
        return None
    compressor = zstandard.ZstdCompressor(level=codec.level, write_content_size=True)
    view, packed, entries = memoryview(data), bytearray(), bytearray()
    for start in range(0, size, frame_size):
        piece = view[start : start + frame_size]
        frame = compressor.compress(piece)
        packed += frame
        entries += SEEK_ENTRY.pack(len(frame), len(piece), _frame_checksum(piece))
        if not pays(len(packed) + len(entries), size):
            return None
    packed += SEEK_HEAD.pack(SEEK_SKIPPABLE_MAGIC, len(entries) + SEEK_FOOT.size) + entries
    packed += SEEK_FOOT.pack(len(entries) // SEEK_ENTRY.size, SEEK_CHECKSUMS, SEEK_MAGIC)
    return packed if pays(len(packed), size) else None


def _frame_checksum(data: Buffer) -> int:
    return xxhash.xxh64_intdigest(data) & 0xFFFFFFFF


@dataclass(frozen=True)
class SeekTable:
    """Where each of n frames begins and ends: stored and decoded are offsets in bytes, int64 [n + 1]."""

    stored: NDArray[np.int64]
    decoded: NDArray[np.int64]
    checks: NDArray[Any]

    def frames(self, start: int, stop: int) -> range:
        """Return the numbers of the frames that hold the decoded bytes [start, stop); start < stop."""
        first = int(np.searchsorted(self.decoded, start, "right")) - 1
        return range(first, int(np.searchsorted(self.decoded, stop, "left")))


def read_table(read: Read, size: int, orig_size: int) -> SeekTable | None:
    """Return the seek table at the end of a block of `size` stored bytes, None if there is no valid one.

    read: returns the stored bytes [start, stop). A table without checksums is not used, because its frames could not be
    verified.
    """
    foot = size - SEEK_FOOT.size
    if foot < SEEK_HEAD.size:
        return None
    count, descriptor, magic = SEEK_FOOT.unpack(read(foot, size))
    head = foot - count * SEEK_ENTRY.size - SEEK_HEAD.size
    if (magic, descriptor) != (SEEK_MAGIC, SEEK_CHECKSUMS) or head < 0 or count == 0:
        return None
    table = read(head, foot)
    if SEEK_HEAD.unpack_from(table) != (SEEK_SKIPPABLE_MAGIC, size - head - SEEK_HEAD.size):
        return None
    columns = np.frombuffer(table, "<u4", 3 * count, SEEK_HEAD.size).reshape(count, 3)
    stored, decoded = (np.concatenate([[0], np.cumsum(columns[:, column], dtype=np.int64)]) for column in range(2))
    return SeekTable(stored, decoded, columns[:, 2]) if (stored[-1], decoded[-1]) == (head, orig_size) else None


def read_frame(read: Read, table: SeekTable, number: int, where: str) -> Buffer:
    """Decode one frame and compare its check; raises ChecksumError, CodecError, LimitError."""
    start, stop = (int(offset) for offset in table.stored[number : number + 2])
    size = int(table.decoded[number + 1] - table.decoded[number])
    data = decompress(read(start, stop), size, ENTRY_ZSTD, f"{where}: frame {number}")
    computed = _frame_checksum(data)
    if computed != table.checks[number]:
        stored = int(table.checks[number])
        raise ChecksumError(
            f"{where}: Checksum mismatch in frame {number}: stored 0x{stored:08x}, computed 0x{computed:08x}"
        )
    return data
