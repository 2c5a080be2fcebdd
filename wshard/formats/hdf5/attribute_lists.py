"""Find where an HDF5 file stores the values of an attribute, without the library.

The library reads texts of variable length only after allocating the memory that they claim to need, and cannot return
the lengths before: this module parses object headers and the heaps of objects with many attributes (HDF5 file format
specification, sections IV.A and III.G) far enough to find them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read = Callable[[int, int], bytes]

_ATTRIBUTE: Final = 0x0C
_CONTINUATION: Final = 0x10
_ATTRIBUTE_INFO: Final = 0x15
_SHARED: Final = 2
_UNDEFINED: Final = (1 << 64) - 1
_MAX_PART_SIZE: Final = 1 << 24  # bytes of one part of a header or heap
_MAX_PARTS: Final = 4096

_HEADER_1: Final = struct.Struct("<BxHII4x")  # version, messages, references, size
_MESSAGE_1: Final = struct.Struct("<HHB3x")  # kind, size, flags
_MESSAGE_2: Final = struct.Struct("<BHB")
_RANGE: Final = struct.Struct("<QQ")
_ATTRIBUTE_HEADER: Final = struct.Struct("<BxHHH")  # version, sizes of name, type and shape
_HEAP: Final = struct.Struct("<4sBHHBI96sHQQHHQH")


def find_values(read: Read, header: int, name: bytes, size: int) -> list[bytes]:
    """Return the values of the attributes of this name, `size` bytes each; empty where none can be found.

    read(offset, size) returns bytes of the file, fewer at its end; header: the address of the object.
    """
    values = []
    for type_, message in _messages(read, header):
        if type_ == _ATTRIBUTE:
            values += _values_in(message, 0, name, size)
        elif type_ == _ATTRIBUTE_INFO and len(message) >= 2:
            heap = message[2 + 2 * (message[1] & 1) :][:8]
            for block in _heap_blocks(read, int.from_bytes(heap, "little")):
                position = block.find(name + b"\0")
                while position >= 0:
                    for header_size in (8, 9):
                        values += (
                            _values_in(block, position - header_size, name, size) if position >= header_size else []
                        )
                    position = block.find(name + b"\0", position + 1)
    return values


def _values_in(data: bytes, start: int, name: bytes, size: int) -> list[bytes]:
    """Return the value of the attribute at an offset, [] if it has another name."""
    if len(data) < start + _ATTRIBUTE_HEADER.size + 1:
        return []
    version, *sizes = _ATTRIBUTE_HEADER.unpack_from(data, start)
    position = start + _ATTRIBUTE_HEADER.size + (version == 3)
    if version not in (1, 2, 3) or data[position : position + sizes[0]].partition(b"\0")[0] != name:
        return []
    position += sum(-(-size_ // 8) * 8 if version == 1 else size_ for size_ in sizes)
    return [data[position : position + size]]


def _messages(read: Read, header: int) -> Iterator[tuple[int, bytes]]:
    """Yield kind and data of the messages of an object header that are not shared."""
    prefix = read(header, 64)
    if prefix.startswith(b"OHDR"):
        flags = prefix[5]
        offset = 6 + 16 * (flags >> 5 & 1) + 4 * (flags >> 4 & 1)
        width = 1 << (flags & 3)
        parts = [(header + offset + width, int.from_bytes(prefix[offset : offset + width], "little"))]
        frame, extra, margin = _MESSAGE_2, 2 * (flags >> 2 & 1), 4
    elif len(prefix) >= _HEADER_1.size:
        parts = [(header + _HEADER_1.size, _HEADER_1.unpack_from(prefix)[3])]
        frame, extra, margin = _MESSAGE_1, 0, 0
    else:
        return
    for offset, size in parts:  # continuation messages append to it
        data = read(offset, min(size, _MAX_PART_SIZE))
        position = 0
        while position + frame.size + extra <= len(data):
            type_, length, flags = frame.unpack_from(data, position)
            position += frame.size + extra
            message, position = data[position : position + length], position + length
            if type_ == _CONTINUATION and len(message) >= _RANGE.size and len(parts) < _MAX_PARTS:
                address, count = _RANGE.unpack_from(message)
                parts.append((address + margin, count - 2 * margin) if margin else (address, count))
            elif not flags & _SHARED:
                yield type_, message


def _heap_blocks(read: Read, address: int) -> Iterator[bytes]:
    """Yield the direct blocks of a fractal heap whose root has no more than two levels."""
    header = read(address, _HEAP.size) if address != _UNDEFINED else b""
    if len(header) < _HEAP.size or not header.startswith(b"FRHP"):
        return
    _, _, _, filters, _, _, _, width, start, largest, bits, _, root, rows = _HEAP.unpack(header)
    if filters or root == _UNDEFINED:
        return
    if not rows:
        yield read(root, min(start, _MAX_PART_SIZE))
        return
    table_start = root + 13 + (bits + 7) // 8
    for row in range(min(rows, 64)):
        size = start << max(row - 1, 0)
        entries = read(table_start + 8 * width * row, 8 * width) if size <= largest else b""
        for position in range(0, len(entries), 8):
            block_address = int.from_bytes(entries[position : position + 8], "little")
            if block_address != _UNDEFINED:
                yield read(block_address, min(size, _MAX_PART_SIZE))
