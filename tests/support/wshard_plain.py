"""A second reader of Shard files: plain struct and pure Python, slow, strict, and independent of the library."""

from __future__ import annotations

import struct
from typing import Any

import zstandard

MASK = (1 << 64) - 1


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def xxh64(data: bytes) -> int:
    """XXH64 of fewer than 32 bytes or more, seed 0, as its specification says."""
    p1, p2, p3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
    p4, p5 = 9650029242287828579, 2870177450012600261

    def rotate(value: int, by: int) -> int:
        return ((value << by) | (value >> (64 - by))) & MASK

    def step(accumulator: int, lane: int) -> int:
        return rotate((accumulator + lane * p2) & MASK, 31) * p1 & MASK

    position = 0
    if len(data) >= 32:
        lanes = [(p1 + p2) & MASK, p2, 0, -p1 & MASK]
        while position + 32 <= len(data):
            words = struct.unpack_from("<4Q", data, position)
            lanes = [step(accumulator, word) for accumulator, word in zip(lanes, words, strict=True)]
            position += 32
        result = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            result = ((result ^ step(0, lane)) * p1 + p4) & MASK
    else:
        result = p5
    result = (result + len(data)) & MASK
    while position + 8 <= len(data):
        (word,) = struct.unpack_from("<Q", data, position)
        result = (rotate(result ^ step(0, word), 27) * p1 + p4) & MASK
        position += 8
    if position + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, position)
        result = (rotate(result ^ (word * p1 & MASK), 23) * p2 + p3) & MASK
        position += 4
    for byte in data[position:]:
        result = rotate(result ^ (byte * p5 & MASK), 11) * p1 & MASK
    result = (result ^ (result >> 33)) * p2 & MASK
    result = (result ^ (result >> 29)) * p3 & MASK
    return result ^ (result >> 32)


def lz4_block(data: bytes) -> bytes:
    out, position = bytearray(), 0

    def length(nibble: int) -> int:
        nonlocal position
        total = nibble
        while nibble == 15:
            step = data[position]
            position += 1
            total += step
            if step != 255:
                break
        return total

    while position < len(data):
        token = data[position]
        position += 1
        literals = length(token >> 4)
        out += data[position : position + literals]
        position += literals
        if position == len(data):
            break
        (distance,) = struct.unpack_from("<H", data, position)
        position += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-distance])
    return bytes(out)


def read_strict(data: bytes, *, alignment: int = 64) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return role and blocks of a file that follows every MUST of the strict writer, or fail an assertion.

    The MUSTs are C-20 to C-25 of FORMAT.md.
    """
    magic, version, role, flags, aligned, _, entry_size, count = struct.unpack_from("<4sBBHBBHI", data)
    table, section, schema, total = struct.unpack_from("<QQQQ", data, 16)
    assert (magic, version, entry_size, aligned, schema) == (b"SHRD", 2, 48, alignment, 0)
    assert data[48:64] == bytes(16)
    assert total == len(data)
    assert table == 64 + 48 * count
    blocks: dict[str, dict[str, Any]] = {}
    names, end, typed = b"", section, False
    for number in range(count):
        entry = struct.unpack_from("<QIHHQQQIHH", data, 64 + 48 * number)
        hash_, name_offset, name_size, entry_flags, offset, disk, size, crc, content, tags = entry
        raw = data[table + name_offset : table + name_offset + name_size]
        assert (hash_, tags) == (xxh64(raw), 0)
        assert name_offset == len(names)
        names += raw + b"\0"
        start = end if alignment == 0 else -(-end // alignment) * alignment
        assert offset == start, f"{raw!r} at {offset}, expected {start}"
        assert data[end:offset] == bytes(offset - end)
        stored = data[offset : offset + disk]
        assert entry_flags in (0, 3, 5)
        decoded = {0: lambda x: x, 3: _zstd, 5: lz4_block}[entry_flags](stored)
        assert len(decoded) == size
        assert crc == crc32c(decoded)
        assert entry_flags == 0 or (size >= 256 and disk < size * 9 // 10)
        blocks[raw.decode()] = {"data": decoded, "flags": entry_flags, "content": content, "offset": offset}
        end, typed = offset + disk, typed or content != 0
    assert end == len(data)
    assert data[table : table + len(names)] == names
    assert section == (table + len(names) if alignment == 0 else -(-(table + len(names)) // alignment) * alignment), (
        "data section"
    )
    assert data[table + len(names) : section] == bytes(section - table - len(names))
    assert flags == 0x22 | (0x80 if typed else 0)
    assert len(blocks) == count, "names are unique"
    return role, blocks


def _zstd(stored: bytes) -> bytes:
    """Decode one frame, or several with the seek table that says where each is (C-51 to C-53)."""
    assert zstandard.frame_content_size(stored) >= 0, "the frame states its content size"
    if stored[-4:] != struct.pack("<I", 0x8F92EAB1):
        return zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
    count, descriptor = struct.unpack("<IB", stored[-9:-4])
    table = stored[-(count * 12 + 17) :]
    assert (descriptor, count > 1) == (0x80, True)
    assert struct.unpack_from("<II", table) == (0x184D2A5E, count * 12 + 9)
    decoded, position = [], 0
    for size, length, check in struct.iter_unpack("<III", table[8:-9]):
        frame = stored[position : position + size]
        assert zstandard.frame_content_size(frame) == length
        decoded.append(zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False))
        assert xxh64(decoded[-1]) & 0xFFFFFFFF == check
        position += size
    assert stored[position:] == table
    assert len({len(frame) for frame in decoded[:-1]}) == 1
    assert 0 < len(decoded[-1]) <= len(decoded[0])
    return b"".join(decoded)
