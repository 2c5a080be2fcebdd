"""Write a Shard container strictly."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Self

from wshard.core.arguments import file_object
from wshard.core.container.atomic_write import publish
from wshard.core.container.encode_block import in_order, pack_block
from wshard.core.container.index import front_size, pack_index
from wshard.core.container.layout import (
    CONTENT_UNKNOWN,
    DEFAULT_ALIGNMENT,
    FLAG_HAS_CHECKSUMS,
    FLAG_HAS_CONTENT_TYPES,
    FLAG_HAS_SCHEMA,
    FLAG_LITTLE_ENDIAN,
    HEADER_SIZE,
    ROLE_MOSH,
    Header,
    IndexEntry,
    round_up,
)
from wshard.core.container.writer_base import EntryWriter
from wshard.errors import RecordingStateError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from wshard.core.container.codec import Codec
    from wshard.core.container.encode_block import Payload, PendingBlock
    from wshard.core.files.schemes import PathOrFile


class ShardWriter(EntryWriter):
    """Write one Shard file: entries are collected, and written at close() in the order of the calls.

    target: a path (written atomically) or a binary file object. alignment: 0, 16, 32 or 64 bytes. role: 0-255. Payloads
    are referenced, not copied: they must not change before close(). An exception inside `with` writes nothing.
    """

    def __init__(
        self,
        target: PathOrFile,
        role: int = ROLE_MOSH,
        *,
        alignment: int = DEFAULT_ALIGNMENT,
        compression: str | Codec = "none",
    ) -> None:
        where = os.fspath(target) if isinstance(target, (str, os.PathLike)) else "<file object>"
        super().__init__(where, role, alignment, compression)
        self._target = target if isinstance(target, (str, os.PathLike)) else file_object(target, "write")
        self._pending: dict[str, PendingBlock] = {}
        self._tags: dict[str, Sequence[str]] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        self._closed = True

    def write_entry(
        self,
        name: str,
        data: Payload,
        *,
        compression: str | Codec | None = None,
        content_type: int = CONTENT_UNKNOWN,
        tags: Sequence[str] = (),
        frame_size: int = 0,
    ) -> None:
        """Add a block: bytes-like, or a sequence of bytes-like pieces that are concatenated.

        frame_size: decoded bytes per zstd frame, so that parts can be read separately; 0 = one frame. Raises
        FormatError (a ValueError) for a name that exists, is too long or is not Unicode text; RecordingStateError after
        close().
        """
        if self._closed:
            raise RecordingStateError(f"write_entry({name!r}): the writer is closed")
        self._pending[name] = self._new_block(name, data, compression, content_type, frame_size=frame_size)
        self._tags[name] = tags

    def _has_block(self, name: str) -> bool:
        return name in self._pending

    def close(self) -> int:
        """Write the file and return its size in bytes; calling it again does nothing."""
        if self._closed:
            return 0
        self._closed = True
        if isinstance(self._target, (str, os.PathLike)):
            with publish(self._target) as file:
                return self._write(file)
        return self._write(self._target)

    def _write(self, file: IO[bytes]) -> int:
        blocks = list(self._pending.values())
        section = front_size([block.name for block in blocks], self._alignment, self.where)
        base = file.tell()
        file.write(bytes(section))
        position = section
        entries: list[IndexEntry] = []
        sizes = [sum(map(len, block.pieces())) for block in blocks]
        memory = [size * block.codec.buffers for block, size in zip(blocks, sizes, strict=True)]
        for entry, stored in in_order(pack_block, blocks, effort=sizes, memory=memory):
            start = round_up(position, self._alignment)
            file.write(bytes(start - position))
            file.writelines(stored)
            del stored  # before the next block is packed, which may take as much
            bits = self._tag_bits(entry.name, self._tags[entry.name])
            entries.append(entry._replace(data_offset=start, tag_bits=bits))
            position = start + entry.disk_size
        json_section = self._section()
        file.write(json_section)
        index, strings = pack_index(entries)
        header = Header(
            self._role,
            header_flags(typed=any(entry.content_type for entry in entries), json_section=json_section),
            self._alignment,
            self._default.number,
            len(entries),
            HEADER_SIZE + len(index),
            section,
            position if json_section else 0,
            position + len(json_section),
        )
        file.seek(base)
        file.write(header.pack() + index + strings)
        file.seek(base + header.total_file_size)
        return header.total_file_size


def header_flags(*, typed: bool, json_section: bytes) -> int:
    """Return the header flags of a file, with content types or not, with a JSON section or not."""
    flags = FLAG_LITTLE_ENDIAN | FLAG_HAS_CHECKSUMS
    return flags | (FLAG_HAS_CONTENT_TYPES if typed else 0) | (FLAG_HAS_SCHEMA if json_section else 0)
