"""Names of blocks against the hashes that are stored beside them: what damage has changed in an index.

Knows: the hashes that known writers store, and what one flipped bit makes of a name. Does not know: what blocks mean.

No checksum covers header, index and names. A flipped bit there gives a block another name, or leaves the last blocks
out, and an episode without its rewards looks like one that never had any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wshard.layout import HEADER_SIZE, INDEX_ENTRY, INDEX_ENTRY_SIZE, name_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wshard.container import ShardReader
    from wshard.layout import IndexEntry

_FNV_START: Final = 0xCBF29CE484222325
_FNV_FACTOR: Final = 0x100000001B3
_LONGEST: Final = 256  # bytes: of longer names no bit is flipped back
_KINDS: Final = ("signal/", "action/", "omen/", "uncert/", "residual/", "time/", "aux/")


def changed_names(reader: ShardReader, known: Collection[str]) -> dict[int, str | None]:
    """Return the names that blocks of an episode were given, by the numbers of those that have others now.

    None where nothing tells it any more. known: names that stand for something by themselves. A wrong hash alone does
    no harm: the name of a lane is believed unless one bit makes it the name of that hash, and so is every name in a
    file whose hashes are some other writer's.
    """
    strange = [n for n, entry in enumerate(reader.entries) if entry.name not in known and not _is_named(entry)]
    if not strange or not any(map(_is_named, reader.entries)):
        return {}
    given = {number: _given(reader, number, known) for number in strange}
    names = [entry.name for entry in reader.entries]
    return {n: name for n, name in given.items() if name is not None or not names[n].startswith(_KINDS)}


def uncounted(reader: ShardReader) -> int:
    """Return how many index entries follow those that the header counts."""
    header, number = reader.header, reader.header.entry_count
    if HEADER_SIZE + (number + 1) * INDEX_ENTRY_SIZE > header.string_table_offset:
        return 0
    names = bytes(reader.read_range(header.string_table_offset, header.data_section_offset))
    while (end := HEADER_SIZE + (number + 1) * INDEX_ENTRY_SIZE) <= header.string_table_offset:
        stored, offset, size, *_ = INDEX_ENTRY.unpack(reader.read_range(end - INDEX_ENTRY_SIZE, end))
        name = names[offset : offset + size].decode(errors="ignore")
        if not name or stored not in (name_hash(name), _fnv(name)):
            break
        number += 1
    return number - header.entry_count


def _is_named(entry: IndexEntry) -> bool:
    """Say whether it is the name's hash that is stored, or was until a bit of it was flipped: that does no harm."""
    stored = entry.name_hash or 0
    return (stored ^ name_hash(entry.name)).bit_count() <= 1 or (stored ^ _fnv(entry.name)).bit_count() <= 1


def _given(reader: ShardReader, number: int, known: Collection[str]) -> str | None:
    stored = reader.entries[number].name_hash
    for name in (*known, *_one_bit_off(reader, number)):
        if stored in (name_hash(name), _fnv(name)):
            return name
    return None


def _one_bit_off(reader: ShardReader, number: int) -> Iterator[str]:
    """Yield the names that come of this index entry, or of this name, with one bit flipped."""
    begin, header = HEADER_SIZE + number * INDEX_ENTRY_SIZE, reader.header
    _, offset, size, *_ = INDEX_ENTRY.unpack(reader.read_range(begin, begin + INDEX_ENTRY_SIZE))
    table = bytes(reader.read_range(header.string_table_offset, header.data_section_offset))
    places = [(offset ^ 1 << bit, size) for bit in range(32)] + [(offset, size ^ 1 << bit) for bit in range(16)]
    for start, length in places:
        if start + length <= len(table):
            yield table[start : start + length].decode(errors="ignore")
    raw = bytearray(table[offset : offset + size])
    for place in range(len(raw) if len(raw) <= _LONGEST else 0):
        for bit in range(8):
            raw[place] ^= 1 << bit
            yield raw.decode(errors="ignore")
            raw[place] ^= 1 << bit


def _fnv(name: str) -> int:
    """Return the FNV-1a of the UTF-8 name, which one writer stores."""
    found = _FNV_START
    for byte in name.encode():
        found = (found ^ byte) * _FNV_FACTOR & (1 << 64) - 1
    return found
