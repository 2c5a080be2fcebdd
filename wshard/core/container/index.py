"""The index of a container: its entries and names, checked against the file, and packed for writing."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

import xxhash

from wshard.core.container.layout import (
    ALIGNMENTS,
    DATA_OFFSET_FIELD,
    HEADER_SIZE,
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    MAX_ENTRY_COUNT,
    MAX_STRING_TABLE_SIZE,
    Header,
    IndexEntry,
    round_up,
)
from wshard.errors import IndexCorruptError, LimitError, OverlapError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wshard.core.container.layout import Buffer


def unpack_index(data: Buffer, header: Header, where: str) -> list[IndexEntry]:
    """Read and check all index entries; data must hold everything before header.data_section_offset.

    Raises IndexCorruptError for ranges outside the file or unreadable names, OverlapError for shared bytes.
    """
    entries: list[IndexEntry] = []
    previous_end, ordered = header.data_section_offset, True
    for entry, problem in scan_index(data, header, header.total_file_size, where):
        if problem is not None:
            raise problem
        if entry.disk_size:
            ordered = ordered and entry.data_offset >= previous_end
            previous_end = entry.data_offset + entry.disk_size
        entries.append(entry)
    if not ordered and (overlap_error := overlap(entries, where)):
        raise overlap_error
    return entries


def scan_index(
    data: Buffer, header: Header, size: int, where: str
) -> Iterator[tuple[IndexEntry, IndexCorruptError | None]]:
    """Yield each index entry of a file of `size` bytes, and its error or None; an unreadable name is "entry 7"."""
    strings, section = header.string_table_offset, header.data_section_offset
    region = bytes(data[strings:section])
    index = memoryview(data)[HEADER_SIZE : HEADER_SIZE + header.entry_count * INDEX_ENTRY_SIZE]
    names_size = 0
    for number, fields in enumerate(INDEX_ENTRY.iter_unpack(index)):
        hash_, name_offset, name_len, flags, offset, disk_size, orig_size, crc, content_type, tags = fields
        names_size += name_len
        name, problem = "", ""
        if name_offset + name_len > len(region):
            problem = f"name at {name_offset}+{name_len} lies outside the string table of {len(region)} bytes"
        elif names_size > len(region):  # each name has bytes of its own: shared ones could claim gigabytes of names
            problem = f"the names share bytes of the {len(region)} byte string table"
        else:
            try:
                name = region[name_offset : name_offset + name_len].decode()
            except UnicodeDecodeError as error:
                problem = f"name is not UTF-8: {error}"
        if problem:
            name = f"entry {number}"
        entry = IndexEntry(name, flags, offset, disk_size, orig_size, crc, content_type, tags, hash_, name_offset)
        if problem:
            yield entry, IndexCorruptError(f"{where}: {name}: {problem}")
        elif section <= offset and offset + disk_size <= size:
            yield entry, None
        else:
            message = f"{where}: block {name!r}: expected its bytes inside [{section}, {size}), "
            yield entry, IndexCorruptError(message + f"found [{offset}, {offset + disk_size})")


def overlap(entries: Sequence[IndexEntry], where: str) -> OverlapError | None:
    """Return an error for the first two blocks that share bytes, None if there are none."""
    blocks = sorted((entry for entry in entries if entry.disk_size), key=lambda entry: entry.data_offset)
    for first, second in pairwise(blocks):
        if first.data_offset + first.disk_size > second.data_offset:
            return OverlapError(
                f"{where}: blocks {first.name!r} and {second.name!r} overlap at offset {second.data_offset}: the file "
                f"is damaged, or a stream writer interleaved its flushes: `wshard repair` restores the latter exactly"
            )
    return None


def pack_index(entries: Sequence[IndexEntry], strings_offset: int = 0) -> tuple[bytes, bytes]:
    """Return (index bytes, string table bytes); every name ends with one NUL as the container cores write it.

    named: bytes of the string table in front of these.
    """
    index, strings = bytearray(), bytearray()
    for entry in entries:
        encoded = entry.name.encode()
        index += INDEX_ENTRY.pack(
            xxhash.xxh64_intdigest(encoded),
            strings_offset + len(strings),
            len(encoded),
            entry.flags,
            entry.data_offset,
            entry.disk_size,
            entry.orig_size,
            entry.checksum,
            entry.content_type,
            entry.tag_bits,
        )
        strings += encoded + b"\0"
    return bytes(index), bytes(strings)


def shift_offsets(index: bytes, shift: int) -> bytes:
    """Return the index bytes with all block offsets increased by `shift`."""
    rows = [list(fields) for fields in INDEX_ENTRY.iter_unpack(index)]
    for fields in rows:
        fields[DATA_OFFSET_FIELD] += shift
    return b"".join(INDEX_ENTRY.pack(*fields) for fields in rows)


def front_size(names: Sequence[str], alignment: int, where: str) -> int:
    """Return the data_section_offset of a file with these names: header, index and string table, rounded up.

    Raises LimitError for more blocks or names than a reader accepts.
    """
    if len(names) > MAX_ENTRY_COUNT:
        raise LimitError(f"{where}: expected at most {MAX_ENTRY_COUNT} blocks, found {len(names)}")
    strings = HEADER_SIZE + len(names) * INDEX_ENTRY_SIZE
    section = round_up(strings + sum(len(name.encode()) + 1 for name in names), alignment)
    if section - strings > MAX_STRING_TABLE_SIZE:
        raise LimitError(f"{where}: names of {section - strings} bytes, limit {MAX_STRING_TABLE_SIZE}")
    return section


def find_emptied(
    entries: Sequence[IndexEntry],
    header: Header,
    size: int,
    read_range: Callable[[int, int], Buffer],
    outside: Sequence[IndexEntry] = (),
) -> dict[int, int]:
    """Return the numbers of empty entries at whose offset there are unassigned bytes, and how many bytes.

    An empty entry and one wiped by damage look alike, and 0 is the checksum of nothing, so the bytes of the file
    decide. size: that of the file; outside: entries that claim bytes beyond its end.
    """
    empty = [number for number, entry in enumerate(entries) if not entry.orig_size and not entry.disk_size]
    if not empty:
        return {}
    starts = sorted(entry.data_offset for entry in (*entries, *outside) if entry.disk_size)
    ends = (header.schema_offset, header.total_file_size, size)
    unassigned: dict[int, int] = {}
    for number in empty:
        start = entries[number].data_offset
        position = bisect_left(starts, start)
        end = min(starts[position : position + 1] or [end for end in ends if start <= end <= size], default=start)
        padded = {round_up(start, alignment) for alignment in ALIGNMENTS}
        if end != start and (end not in padded or any(read_range(start, end))):
            unassigned[number] = end - start
    return unassigned
