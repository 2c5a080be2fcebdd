"""Read records sequentially from a stream that cannot seek, such as a pipe or a download."""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from wshard.core.arguments import file_object
from wshard.core.container.layout import MAX_INDEX_SIZE
from wshard.core.files.regular import open_file
from wshard.errors import FormatError, IndexCorruptError, LimitError
from wshard.training.shardpack.index import PackIndex
from wshard.training.shardpack.layout import (
    END_MARKER,
    FOOTER_SIZE,
    MAX_ENTRY_SIZE,
    RECORD_HEADER_SIZE,
    RECORD_SIZE,
    PackFooter,
    RecordHeader,
)
from wshard.training.shardpack.record import unpack_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.training.shardpack.record import ShardPackRecord

_READ_SIZE: Final = 1 << 20
MAX_STREAMED_RECORD: Final = MAX_ENTRY_SIZE


def stream_shardpack(source: str | os.PathLike[str] | IO[bytes]) -> Iterator[ShardPackRecord]:
    """Yield the records of a path or binary stream in order, with one in memory, then check index and footer.

    Raises IndexCorruptError after the last complete record of a truncated stream, FormatError, OSError.
    """
    with contextlib.ExitStack() as stack:
        is_path = isinstance(source, str | os.PathLike)
        file = stack.enter_context(open_file(source)) if is_path else file_object(source, "read")  # type: ignore[arg-type]
        where = str(getattr(file, "name", "<stream>"))
        offsets: list[int] = []
        position = 0
        while True:
            record_where = f"{where}: record {len(offsets)}"
            head = _read(file, RECORD_SIZE.size, record_where, "its size, or 8 zero bytes after the last record")
            if head == END_MARKER:
                break
            block = _read_block(file, head, record_where)
            yield unpack_record(memoryview(block), record_where)
            offsets.append(position)
            position += len(block)
        _check_end(file, offsets, position, where)


def _read_block(file: IO[bytes], head: bytes, where: str) -> bytes:
    """Read the rest of a record; its header is verified before memory is allocated."""
    (size,) = RECORD_SIZE.unpack(head)
    if size > MAX_STREAMED_RECORD:
        raise LimitError(f"{where}: record size {size}: expected at most {MAX_STREAMED_RECORD}")
    if size < RECORD_HEADER_SIZE:
        raise FormatError(f"{where}: record size: expected at least {RECORD_HEADER_SIZE}, found {size}")
    head_bytes = head + _read(file, RECORD_HEADER_SIZE - len(head), where, "its header")
    header, _ = RecordHeader.peek(memoryview(head_bytes), where)
    head_bytes += _read(file, header.entries_start - len(head_bytes), where, "its key and metadata")
    RecordHeader.unpack(memoryview(head_bytes), where)
    return head_bytes + _read(file, size - len(head_bytes), where, f"its {size} bytes")


def _check_end(file: IO[bytes], offsets: list[int], end: int, where: str) -> None:
    """Compare the index and footer at the end with the records that were read."""
    tail = bytearray(END_MARKER)
    while piece := file.read(_READ_SIZE):
        tail += piece
        if len(tail) > MAX_INDEX_SIZE + FOOTER_SIZE:
            raise LimitError(f"{where}: expected an index of at most {MAX_INDEX_SIZE} bytes after the records")
    data = memoryview(bytes(tail))
    footer = PackFooter.unpack(data[-FOOTER_SIZE:], end + len(data), where)
    if footer.index_offset != end + len(END_MARKER):
        raise IndexCorruptError(f"{where}: index: expected at {end + len(END_MARKER)}, found {footer.index_offset}")
    stored = PackIndex.unpack(data[:-FOOTER_SIZE], footer, where).offsets
    if not np.array_equal(stored, np.array(offsets, np.uint64)):
        raise IndexCorruptError(f"{where}: the index names {len(stored)} records, the stream had {len(offsets)} others")


def _read(file: IO[bytes], size: int, where: str, what: str) -> bytes:
    """Read exactly `size` bytes, piecewise, so that a damaged size allocates little; raises IndexCorruptError."""
    data = bytearray()
    while len(data) < size and (piece := file.read(min(size - len(data), _READ_SIZE))):
        data += piece
    if len(data) < size:
        raise IndexCorruptError(f"{where}: truncated: expected {what} ({size} bytes more), found {len(data)}")
    return bytes(data)
