"""Encode blocks: compressed if it pays off, in frames if requested, with their checksum."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from wshard.core.container.codec import Codec, CompressionType, compress
from wshard.core.container.layout import CONTENT_UNKNOWN, IndexEntry, checksum
from wshard.core.container.seekable_zstd import compress_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wshard.core.container.layout import Buffer

    Payload = Buffer | Sequence[Buffer]
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future


class PendingBlock(NamedTuple):
    """A block to write: `data` are stored one after the other; frame_size: decoded bytes per frame, 0 = one frame."""

    name: str
    data: Sequence[Buffer]
    codec: Codec
    content_type: int = CONTENT_UNKNOWN
    frame_size: int = 0

    @staticmethod
    def of(
        name: str, data: Payload, codec: Codec, content_type: int = CONTENT_UNKNOWN, *, frame_size: int = 0
    ) -> PendingBlock:
        """Return a block of one bytes-like payload, or of a sequence of them."""
        pieces = (data,) if isinstance(data, (bytes, bytearray, memoryview)) else data
        return PendingBlock(name, pieces, codec, content_type, frame_size)

    def pieces(self) -> Iterator[memoryview]:
        """Yield the pieces that hold anything, as bytes."""
        return (memoryview(piece).cast("B") for piece in self.data if len(piece))


def pack_block(block: PendingBlock) -> tuple[IndexEntry, Iterable[Buffer]]:
    """Return a block's index entry, without its offset and tags, and the pieces to store."""
    size, crc = 0, 0
    for piece in block.pieces():
        size, crc = size + len(piece), checksum(piece, crc)
    packed = _compress(block, size)
    if packed is None:
        return IndexEntry(block.name, 0, 0, size, size, crc, block.content_type), block.pieces()
    return IndexEntry(block.name, block.codec.entry_flags, 0, len(packed), size, crc, block.content_type), (packed,)


def _compress(block: PendingBlock, size: int) -> Buffer | None:
    if not block.codec.entry_flags:
        return None
    whole = next(block.pieces(), b"") if len(block.data) == 1 else b"".join(block.pieces())
    if 0 < block.frame_size < size and block.codec.type is CompressionType.ZSTD:
        return compress_frames(whole, block.codec, block.frame_size)
    return compress(whole, block.codec)


Item = TypeVar("Item")
Result = TypeVar("Result")
_MAX_THREADS: Final = 8
_IN_FLIGHT: Final = 1 << 26  # bytes of results that may wait, unless a single one is larger
_WORTH_THREADS: Final = 1 << 20  # bytes of work below which starting threads costs more than it saves


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], *, effort: Sequence[int], memory: Sequence[int]
) -> Iterator[Result]:
    """Yield work(item) for each item, in order, computed ahead in as many threads as there are cores.

    effort: bytes that each item has to go through. memory: bytes that each result takes; those in flight take no more
    than the largest of them alone, or 64 MiB. What work raises is raised here, for the first item that does.
    """
    threads = min(_cores(), len(effort), _MAX_THREADS)
    if threads < 2 or sum(effort) - max(effort) < _WORTH_THREADS:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (costs every start of the command otherwise)

    max_in_flight, in_flight = max(_IN_FLIGHT, *memory), 0
    pending: deque[tuple[Future[Result], int]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for item, size in zip(items, memory, strict=True):
            while pending and in_flight + size > max_in_flight:
                yield pending[0][0].result()
                in_flight -= pending.popleft()[1]
            pending.append((pool.submit(work, item), size))
            in_flight += size
        while pending:
            yield pending.popleft()[0].result()
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
