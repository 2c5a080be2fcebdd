"""Find where an HDF5 file stores the values of an attribute, without the library.

The library gives the values of texts of variable length only after it has taken the memory that they claim to need, and
cannot be asked for the lengths before: this reads object headers and the heaps of objects with many attributes (HDF5
file format specification, sections IV.A and III.G) far enough to find them.
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
_MOST: Final = 1 << 24  # bytes of one part of a header or heap
_MAX_PARTS: Final = 4096

_HEADER_1: Final = struct.Struct("<BxHII4x")  # version, messages, references, size
_MESSAGE_1: Final = struct.Struct("<HHB3x")  # kind, size, flags
_MESSAGE_2: Final = struct.Struct("<BHB")
_RANGE: Final = struct.Struct("<QQ")
_ATTRIBUTE_HEADER: Final = struct.Struct("<BxHHH")  # version, sizes of name, type and shape
_HEAP: Final = struct.Struct("<4sBHHBI96sHQQHHQH")


def find_values(read: Read, header: int, name: bytes, size: int) -> list[bytes]:
    """Return the values of the attributes of this name, `size` bytes each; empty where none can be found.

    read(place, size) returns bytes of the file, fewer at its end; header: the address of the object.
    """
    found = []
    for kind, message in _messages(read, header):
        if kind == _ATTRIBUTE:
            found += _values_in(message, 0, name, size)
        elif kind == _ATTRIBUTE_INFO and len(message) >= 2:
            heap = message[2 + 2 * (message[1] & 1) :][:8]
            for block in _heap_blocks(read, int.from_bytes(heap, "little")):
                place = block.find(name + b"\0")
                while place >= 0:
                    for before in (8, 9):
                        found += _values_in(block, place - before, name, size) if place >= before else []
                    place = block.find(name + b"\0", place + 1)
    return found


def _values_in(data: bytes, begin: int, name: bytes, size: int) -> list[bytes]:
    """Return the value of the attribute that begins at a byte, none if it has another name."""
    if len(data) < begin + _ATTRIBUTE_HEADER.size + 1:
        return []
    version, *sizes = _ATTRIBUTE_HEADER.unpack_from(data, begin)
    place = begin + _ATTRIBUTE_HEADER.size + (version == 3)
    if version not in (1, 2, 3) or data[place : place + sizes[0]].partition(b"\0")[0] != name:
        return []
    place += sum(-(-one // 8) * 8 if version == 1 else one for one in sizes)
    return [data[place : place + size]]


def _messages(read: Read, header: int) -> Iterator[tuple[int, bytes]]:
    """Yield kind and data of the messages of an object header that are not shared."""
    begin = read(header, 64)
    if begin.startswith(b"OHDR"):
        flags = begin[5]
        place = 6 + 16 * (flags >> 5 & 1) + 4 * (flags >> 4 & 1)
        width = 1 << (flags & 3)
        parts = [(header + place + width, int.from_bytes(begin[place : place + width], "little"))]
        frame, extra, margin = _MESSAGE_2, 2 * (flags >> 2 & 1), 4
    elif len(begin) >= _HEADER_1.size:
        parts = [(header + _HEADER_1.size, _HEADER_1.unpack_from(begin)[3])]
        frame, extra, margin = _MESSAGE_1, 0, 0
    else:
        return
    for place, size in parts:  # grows by its continuations
        data = read(place, min(size, _MOST))
        at = 0
        while at + frame.size + extra <= len(data):
            kind, length, flags = frame.unpack_from(data, at)
            at += frame.size + extra
            message, at = data[at : at + length], at + length
            if kind == _CONTINUATION and len(message) >= _RANGE.size and len(parts) < _MAX_PARTS:
                more, count = _RANGE.unpack_from(message)
                parts.append((more + margin, count - 2 * margin) if margin else (more, count))
            elif not flags & _SHARED:
                yield kind, message


def _heap_blocks(read: Read, address: int) -> Iterator[bytes]:
    """Yield the direct blocks of a fractal heap whose root has no more than two levels."""
    head = read(address, _HEAP.size) if address != _UNDEFINED else b""
    if len(head) < _HEAP.size or not head.startswith(b"FRHP"):
        return
    _, _, _, filters, _, _, _, width, start, largest, bits, _, root, rows = _HEAP.unpack(head)
    if filters or root == _UNDEFINED:
        return
    if not rows:
        yield read(root, min(start, _MOST))
        return
    begin = root + 13 + (bits + 7) // 8
    for row in range(min(rows, 64)):
        size = start << max(row - 1, 0)
        entries = read(begin + 8 * width * row, 8 * width) if size <= largest else b""
        for at in range(0, len(entries), 8):
            place = int.from_bytes(entries[at : at + 8], "little")
            if place != _UNDEFINED:
                yield read(place, min(size, _MOST))
