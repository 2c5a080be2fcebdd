"""Write a container block by block: each goes to the disk at once, the index follows at the end."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

import numpy as np

from wshard.core.container.atomic_write import publish
from wshard.core.container.encode_block import pack_block
from wshard.core.container.index import pack_index, shift_offsets
from wshard.core.container.layout import (
    CONTENT_UNKNOWN,
    DEFAULT_ALIGNMENT,
    FLAG_STREAMING,
    HEADER_SIZE,
    INDEX_ENTRY_SIZE,
    MAX_ENTRY_COUNT,
    MAX_STRING_TABLE_SIZE,
    ROLE_MOSH,
    Header,
    name_hash,
    round_up,
)
from wshard.core.container.writer import header_flags
from wshard.core.container.writer_base import EntryWriter
from wshard.errors import LimitError, RecordingStateError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from wshard.core.container.codec import Codec
    from wshard.core.container.encode_block import Payload

_NAME_GUESS: Final = 64  # bytes that are reserved for each name
_CHUNK: Final = 1 << 20
_ROWS: Final = 1024  # index entries that are moved at a time


class ShardStreamWriter(EntryWriter):
    """Write one Shard file block by block, with memory for one block and 8 bytes per name.

    The file is written under a temporary name and appears at `path` with finalize(); an exception inside `with`,
    abort() or close() leaves nothing behind. Room for the index of max_entries blocks is reserved at the front; more
    blocks are possible, up to the format's limit, but then finalize() has to move the data once. Blocks are in the
    order of writing.

    Call order: begin_data(), write_entry()..., finalize(); otherwise RecordingStateError (a RuntimeError).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        role: int = ROLE_MOSH,
        max_entries: int = 10_000,
        *,
        alignment: int = DEFAULT_ALIGNMENT,
        compression: str | Codec = "none",
    ) -> None:
        self._file: IO[bytes] | None = None
        super().__init__(os.fspath(path), role, alignment, compression)
        if not 0 <= max_entries <= MAX_ENTRY_COUNT:
            raise LimitError(f"max_entries: expected 0 to {MAX_ENTRY_COUNT}, found {max_entries}")
        self._max_entries = max_entries
        self._publishing: AbstractContextManager[IO[bytes]] = publish(path)
        self._finished = False
        self._name_hashes = _NameHashes()
        self._index, self._strings = _spill(self.where), _spill(self.where)
        self._typed = False
        self._data_start = 0
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if exc_type is None and self._file is not None:
                self.finalize()
        finally:
            self.abort()

    def set_alignment(self, alignment: int) -> None:
        """Align blocks to 0 (packed), 16, 32 or 64 bytes; only before begin_data()."""
        if self._file is not None:
            raise RecordingStateError(f"{self.where}: set_alignment: expected before begin_data()")
        super().set_alignment(alignment)

    def begin_data(self) -> None:
        """Create the file under its temporary name; blocks may follow."""
        if self._file is not None or self._finished:
            raise RecordingStateError(f"{self.where}: begin_data: the writer has begun already")
        self._file = self._publishing.__enter__()
        reserved = self._max_entries * (INDEX_ENTRY_SIZE + _NAME_GUESS)
        # A reader takes the gap between index and data for the string table, and that has a limit.
        largest = HEADER_SIZE + MAX_STRING_TABLE_SIZE // DEFAULT_ALIGNMENT * DEFAULT_ALIGNMENT
        self._data_start = self._end = min(round_up(HEADER_SIZE + reserved, self._alignment), largest)
        self._file.seek(self._data_start)

    def write_entry(
        self,
        name: str,
        data: Payload,
        *,
        compression: str | Codec | None = None,
        content_type: int = CONTENT_UNKNOWN,
        tags: Sequence[str] = (),
    ) -> None:
        """Write a block: bytes-like, or a sequence of bytes-like pieces that are concatenated.

        Raises FormatError (a ValueError) for a name that exists, is too long or is not Unicode text; OSError.
        """
        file = self._begun("write_entry")
        block = self._new_block(name, data, compression, content_type)
        count = len(self._name_hashes)
        names_size = self._strings.tell() + len(name.encode()) + 1
        if (
            count == MAX_ENTRY_COUNT
            or round_up(names_size, DEFAULT_ALIGNMENT) > MAX_STRING_TABLE_SIZE - DEFAULT_ALIGNMENT
        ):
            raise LimitError(f"{self.where}: block {name!r}: no reader takes more than the {count} blocks so far")
        bits = self._tag_bits(name, tags)
        self._name_hashes.add(name_hash(name))
        try:
            start = round_up(self._end, self._alignment)
            file.write(bytes(start - self._end))
            entry, stored = pack_block(block)
            file.writelines(stored)
            entry = entry._replace(data_offset=start, tag_bits=bits)
            row, string = pack_index([entry], self._strings.tell())
            self._index.write(row)
            self._strings.write(string)
        except BaseException:
            self.abort()  # what a full disk took of the block cannot be told
            raise
        self._end = start + entry.disk_size
        self._typed = self._typed or content_type != 0

    def _has_block(self, name: str) -> bool:
        return name_hash(name) in self._name_hashes

    def finalize(self) -> int:
        """Write header and index, publish the file and return its size in bytes."""
        file = self._begun("finalize")
        try:
            size = self._finish(file)
            self._file = None
            self._publishing.__exit__(None, None, None)
        finally:
            self.abort()
        return size

    def abort(self) -> None:
        """Discard the file. Does nothing after finalize()."""
        if self._file is not None:
            self._file = None
            abandoned = RecordingStateError(f"{self.where}: the writer was abandoned")
            self._publishing.__exit__(type(abandoned), abandoned, None)
        self._index.close()
        self._strings.close()
        self._finished = True

    def close(self) -> None:
        """Discard the file, unless it was finalized."""
        self.abort()

    def _begun(self, call: str) -> IO[bytes]:
        if self._file is None:
            state = "the writer is finished" if self._finished else "call begin_data() first"
            raise RecordingStateError(f"{self.where}: {call}: {state}")
        return self._file

    def _finish(self, file: IO[bytes]) -> int:
        count, names_size = len(self._name_hashes), self._strings.tell()
        index_end = HEADER_SIZE + count * INDEX_ENTRY_SIZE
        shift = max(round_up(index_end + names_size, self._alignment) - self._data_start, 0)
        section = self._data_start + shift
        if shift:
            _move_up(file, self._data_start, self._end, shift)
        json_section = self._section()
        end = self._end + shift
        file.seek(end)
        file.write(json_section)
        flags = header_flags(typed=self._typed, json_section=json_section) | FLAG_STREAMING
        header = Header(
            self._role,
            flags,
            self._alignment,
            self._default.number,
            count,
            index_end,
            section,
            end if json_section else 0,
            end + len(json_section),
        )
        file.seek(0)
        file.write(header.pack())
        self._write_index(file, shift)
        if shift:
            file.write(bytes(section - index_end - names_size))  # moved data stood here
        file.truncate(header.total_file_size)
        return header.total_file_size

    def _write_index(self, file: IO[bytes], shift: int) -> None:
        self._index.seek(0)
        while rows := self._index.read(_ROWS * INDEX_ENTRY_SIZE):
            file.write(shift_offsets(rows, shift) if shift else rows)
        self._strings.seek(0)
        while names := self._strings.read(_CHUNK):
            file.write(names)


def _spill(path: str) -> IO[bytes]:
    folder = str(Path(path).parent)
    return tempfile.SpooledTemporaryFile(_CHUNK, dir=folder)


class _NameHashes:
    """Hashes of the names so far, 8 bytes each: sorted runs, and a set of the last ones."""

    def __init__(self) -> None:
        self._sorted = np.zeros(0, np.uint64)
        self._recent: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)

    def __contains__(self, value: int) -> bool:
        position = int(np.searchsorted(self._sorted, np.uint64(value)))
        return value in self._recent or (position < len(self._sorted) and int(self._sorted[position]) == value)

    def add(self, value: int) -> None:
        """Add a hash."""
        self._recent.add(value)
        if len(self._recent) == _CHUNK // 16:
            self._sorted = np.sort(np.concatenate([self._sorted, np.fromiter(self._recent, np.uint64)]))
            self._recent = set()


def _move_up(file: IO[bytes], start: int, stop: int, shift: int) -> None:
    """Move the bytes [start, stop) of a file towards its end, the last ones first."""
    while stop > start:
        chunk_start = max(start, stop - _CHUNK)
        file.seek(chunk_start)
        data = file.read(stop - chunk_start)
        file.seek(chunk_start + shift)
        file.write(data)
        stop = chunk_start
