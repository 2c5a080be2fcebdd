"""Names of blocks against the hashes that are stored beside them: what damage has changed in an index.

Knows: the hashes that known writers store, and what one flipped bit makes of a name. Does not know: what blocks mean.

No checksum covers header, index and names. A flipped bit there gives a block another name, or leaves the last blocks
out, and an episode without its rewards looks like one that never had any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wshard.layout import HEADER_SIZE, INDEX_ENTRY, INDEX_ENTRY_SIZE, name_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from wshard.container import ShardReader
    from wshard.layout import IndexEntry

_FNV_START: Final = 0xCBF29CE484222325
_FNV_FACTOR: Final = 0x100000001B3
# What is looked at, so that nobody's file takes longer than a moment: no episode has as much.
_ENTRIES: Final = 2048
_STRANGE: Final = 8
_LONGEST: Final = 256
_SAMPLED: Final = 32


def changed_names(reader: ShardReader, known: Collection[str]) -> dict[int, str]:
    """Return the names that blocks of an episode were given, by the numbers of those that have others now.

    known: names that stand for something by themselves. A wrong hash alone does no harm: a name is believed unless the
    hash is that of a known one, or of what one flipped bit made it from.
    """
    entries = reader.entries
    unknown = [number for number, entry in enumerate(entries) if entry.name not in known]
    strange = [number for number in unknown if not _has(entries[number], name_hash)]
    if not strange or max(len(entries), len(known)) > _ENTRIES or (hashed := _writers(entries)) is None:
        return {}
    strange = [number for number in strange if not _has(entries[number], hashed)]
    hashes = {hashed(name): name for name in known if len(name) <= _LONGEST} if strange else {}
    given = {number: hashes.get(entries[number].name_hash or 0) for number in strange}
    for number in [number for number, name in given.items() if name is None][:_STRANGE]:
        others = _one_bit_off(reader, entries[number])
        given[number] = next((name for name in others if hashed(name) == entries[number].name_hash), None)
    return {number: name for number, name in given.items() if name is not None}


def uncounted(reader: ShardReader) -> int:
    """Return how many index entries follow those that the header counts."""
    header, number = reader.header, reader.header.entry_count
    if HEADER_SIZE + (number + 1) * INDEX_ENTRY_SIZE > header.string_table_offset:
        return 0
    while number < _ENTRIES and (end := HEADER_SIZE + (number + 1) * INDEX_ENTRY_SIZE) <= header.string_table_offset:
        stored, offset, size, *_ = INDEX_ENTRY.unpack(reader.read_range(end - INDEX_ENTRY_SIZE, end))
        name = _name_at(reader, offset, size)
        if not name or stored not in (name_hash(name), _fnv(name)):
            break
        number += 1
    return number - header.entry_count


def _has(entry: IndexEntry, hashed: Callable[[str], int]) -> bool:
    """Say whether it is the name's hash that is stored, or was until a bit of it was flipped: that does no harm."""
    return len(entry.name) > _LONGEST or ((entry.name_hash or 0) ^ hashed(entry.name)).bit_count() <= 1


def _writers(entries: Sequence[IndexEntry]) -> Callable[[str], int] | None:
    """Return the hash that most of the names have, None if none has any that is known."""
    some = entries[:_SAMPLED]
    ways = {hashed: sum(_has(entry, hashed) for entry in some) for hashed in (name_hash, _fnv)}
    best = max(ways, key=ways.__getitem__)
    return best if ways[best] else None


def _one_bit_off(reader: ShardReader, entry: IndexEntry) -> Iterator[str]:
    """Yield the names that come of this index entry, or of this name, with one bit flipped."""
    rows = reader.read_range(HEADER_SIZE, HEADER_SIZE + reader.header.entry_count * INDEX_ENTRY_SIZE)
    for hash_, offset, size, *others in INDEX_ENTRY.iter_unpack(rows):
        if (*others, hash_) == entry[1:]:
            for bit in range(32):
                yield _name_at(reader, offset ^ 1 << bit, size)
            for bit in range(16):
                yield _name_at(reader, offset, size ^ 1 << bit)
    raw = bytearray(entry.name.encode()[:_LONGEST])
    for place in range(len(raw)):
        for bit in range(8):
            raw[place] ^= 1 << bit
            yield raw.decode(errors="ignore")
            raw[place] ^= 1 << bit


def _name_at(reader: ShardReader, offset: int, size: int) -> str:
    """Return the name that lies there in the string table, "" for none, and for a long one."""
    start = reader.header.string_table_offset + offset
    if size > _LONGEST or start + size > reader.header.data_section_offset:
        return ""
    return bytes(reader.read_range(start, start + size)).decode(errors="ignore")


def _fnv(name: str) -> int:
    """Return the FNV-1a of the UTF-8 name, which one writer stores."""
    found = _FNV_START
    for byte in name.encode():
        found = (found ^ byte) * _FNV_FACTOR & (1 << 64) - 1
    return found
