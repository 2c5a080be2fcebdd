"""Check the names of blocks against their stored hashes, to detect damage of an index.

No checksum covers header, index and names: a flipped bit there renames a block, or drops the last blocks, and an
episode without its rewards looks like one that never had any.
"""

from __future__ import annotations

import warnings
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Final, Protocol

from wshard.core.container.index import find_emptied
from wshard.core.container.layout import HEADER_SIZE, INDEX_ENTRY, INDEX_ENTRY_SIZE, ROLE_WSHARD, name_hash
from wshard.errors import FormatWarning, IndexCorruptError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from wshard.core.container.layout import Header, IndexEntry

_FNV_OFFSET_BASIS: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
# Limits of the search, so that opening any file takes little time; no real episode reaches them.
_MAX_ENTRIES: Final = 2048
_MAX_SEARCHES: Final = 8
_MAX_HASHED_NAME: Final = 256  # bytes of a name that is hashed by FNV, or of which every byte is changed
_MAX_FLIPPED_NAME: Final = 2048  # bytes of a name of which every bit is flipped
_MAX_PAIRED_NAME: Final = 32  # bytes of a name of which every two bits are flipped
_SAMPLED: Final = 32
_BITS: Final = tuple(1 << bit for bit in range(8))


class NamedBlocks(Protocol):
    """The parts of an open container that the check needs: its header, its index, and their raw bytes."""

    where: str
    header: Header

    @property
    def size(self) -> int:
        """The real size of the file in bytes."""

    @property
    def entries(self) -> Sequence[IndexEntry]:
        """The blocks in the order of the index."""

    def names(self) -> list[str]:
        """Return the names of all blocks in index order."""

    def read_range(self, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of the file as they stand."""


def check_names(reader: NamedBlocks, known: Collection[str] | None = None) -> None:
    """Raise IndexCorruptError if damage to header, index or names renamed or dropped blocks.

    Otherwise they would silently be missing. A FormatWarning reports a hash that does not match a trusted name, and a
    container in which two entries share one name in the string table. known: names with a defined meaning; None: for a
    container that is not an episode.
    """
    header, advice = reader.header, "is damaged; `wshard repair` restores"
    if is_table_moved(reader):
        raise IndexCorruptError(
            f"{reader.where}: string table offset: expected {_index_end(header)}, by the hashes of the names, "
            f"found {header.string_table_offset}: the header {advice} it"
        )
    if uncounted := count_uncounted(reader, most=_MAX_ENTRIES):
        raise IndexCorruptError(
            f"{reader.where}: entry_count: expected {header.entry_count + uncounted}, the entries in the index, found "
            f"{header.entry_count}: the header {advice} it"
        )
    if uncounted := count_room(header):
        message = f"{reader.where}: entry_count: found {header.entry_count}, the index has room for {uncounted} more"
        warnings.warn(f"{message}: see `wshard verify`", FormatWarning, stacklevel=3 if known is None else 4)
    if known is None and len(reader.entries) > _MAX_ENTRIES:
        return  # `wshard verify` checks all
    doubtful = []
    for number, original in find_misnamed(reader, known).items():
        name = reader.entries[number].name
        if original is not None and original != name:
            raise IndexCorruptError(
                f"{reader.where}: block {name!r}: expected {original!r}, by its hash: the index {advice} the name"
            )
        doubtful.append(name)
    _warn(reader, doubtful, "the stored hash does not match the name: one of them is damaged")
    if known is None:
        _warn(reader, _find_shared(reader.entries), "another entry has the same name offset: one of them is damaged")
        emptied = find_emptied(reader.entries, header, reader.size, reader.read_range)
        names = [reader.entries[number].name for number in emptied]
        _warn(reader, names, "its entry says 0 bytes, but unassigned bytes are at its offset")


def _warn(reader: NamedBlocks, names: Sequence[str], message: str) -> None:
    if names:
        what = f"block {names[0]!r}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        # Attribute the warning to the caller's line that opened the file; for an episode, it is one level further up.
        level = 5 if reader.header.role == ROLE_WSHARD else 4
        warnings.warn(f"{reader.where}: {what}: {message}, see `wshard verify`", FormatWarning, stacklevel=level)


def find_misnamed(reader: NamedBlocks, known: Collection[str] | None) -> dict[int, str | None]:
    """Return the original names of the blocks whose stored hash does not match their name, by number.

    That is the name with the stored hash, if another block has it, it is known, or the current name differs from it by
    a byte or two flipped bits; the current name, if one bit of the hash was flipped; None if it cannot be determined.
    Empty if no hash is that of a known writer, none identifies a name, and no name has zeros. known: None if a name is
    trusted (C-8), unless it differs by one flipped bit from one that no other block has.
    """
    entries = reader.entries
    if all(entry.name_hash == name_hash(entry.name) for entry in entries):
        return {}
    hash_function = max(
        _HASH_FUNCTIONS, key=lambda function: sum(_matches_hash(entry, function) for entry in entries[:_SAMPLED])
    )
    if hash_function is _fnv and len(entries) > _MAX_ENTRIES:
        return {}
    wrong = [number for number, entry in enumerate(entries) if not _hash_may_match(entry, hash_function)]
    hashes_trusted = len(wrong) < len(entries)  # one match shows how the writer hashed names
    present = set(reader.names()) if known is None else ()
    names = () if known is None or max(len(entries), len(known)) > _MAX_ENTRIES else (*known, *reader.names())
    hashes = {hash_function(name): name for name in names if len(name) <= _MAX_HASHED_NAME} if wrong else {}
    originals: dict[int, str | None] = {}
    searched = 0
    for number in wrong:
        entry = entries[number]
        original = hashes.get(entry.name_hash or 0)
        if original is None and ((entry.name_hash or 0) ^ hash_function(entry.name)).bit_count() == 1:
            original = entry.name
        if original is None and searched < _MAX_SEARCHES:
            searched += 1
            candidates = _similar_names(reader, entry, far=known is not None and hash_function is name_hash)
            original = next(
                (name for name in candidates if hash_function(name) == entry.name_hash and name not in present), None
            )
        if original is not None or hashes_trusted or _is_wiped(entry.name):
            originals[number] = original
    return originals


def _is_wiped(name: str) -> bool:
    """Return True if zeros were written over a name, or over where its entry finds it, provided its hash is wrong."""
    return not name or "\0" in name


def hashes_of(name: str) -> set[int]:
    """Return the hashes that known writers store with a name; FNV of a long one would take too long."""
    return {function(name) for function in (_HASH_FUNCTIONS if len(name) <= _MAX_HASHED_NAME else (name_hash,))}


def is_table_moved(reader: NamedBlocks) -> bool:
    """Return True if, by the hashes, the names directly follow the index, and not where the header says."""
    header, end = reader.header, _index_end(reader.header)
    if header.string_table_offset == end or any(
        entry.name_hash in hashes_of(entry.name) for entry in reader.entries[:_SAMPLED]
    ):
        return False
    rows = reader.read_range(HEADER_SIZE, min(end, HEADER_SIZE + _SAMPLED * INDEX_ENTRY_SIZE))
    hash_and_name = ((row[0], _name_at(reader, row[1], row[2], end)) for row in INDEX_ENTRY.iter_unpack(rows))
    return any(stored in hashes_of(name) for stored, name in hash_and_name if name)


def count_uncounted(reader: NamedBlocks, most: int | None = None) -> int:
    """Return how many index entries follow those that the header counts, `most` at most."""
    header, number = reader.header, reader.header.entry_count
    while (end := HEADER_SIZE + (number + 1) * INDEX_ENTRY_SIZE) <= header.string_table_offset:
        stored, offset, size, *_ = INDEX_ENTRY.unpack(reader.read_range(end - INDEX_ENTRY_SIZE, end))
        name = _name_at(reader, offset, size, header.string_table_offset)
        if number - header.entry_count == most or not name or stored not in hashes_of(name):
            break
        number += 1
    return number - header.entry_count


def count_room(header: Header) -> int:
    """Return how many entries fit exactly between the counted ones and the string table: no writer leaves a gap."""
    count, rest = divmod(header.string_table_offset - _index_end(header), INDEX_ENTRY_SIZE)
    return 0 if rest else count


def _index_end(header: Header) -> int:
    return HEADER_SIZE + header.entry_count * INDEX_ENTRY_SIZE


def _find_shared(entries: Sequence[IndexEntry]) -> list[str]:
    """Return the names that several entries read from the same offset of the string table, as no writer stores them."""
    if len({entry.name for entry in entries}) == len(entries):
        return []
    places = Counter((entry.name, entry.name_offset) for entry in entries if entry.name)
    return sorted({name for (name, _), count in places.items() if count > 1})


def _matches_hash(entry: IndexEntry, hash_function: Callable[[str], int]) -> bool:
    """Return True if the stored hash shows that the writer used this hash function."""
    return (hash_function is name_hash or len(entry.name) <= _MAX_HASHED_NAME) and entry.name_hash == hash_function(
        entry.name
    )


def _hash_may_match(entry: IndexEntry, hash_function: Callable[[str], int]) -> bool:
    """Return True if the stored hash is that of the name; FNV of a long name takes too long to compute."""
    return entry.name_hash == hash_function(entry.name) or (
        hash_function is _fnv and len(entry.name) > _MAX_HASHED_NAME
    )


def _similar_names(reader: NamedBlocks, entry: IndexEntry, *, far: bool) -> Iterator[str]:
    """Yield the names that result from one flipped bit in the entry's name offset, name length or name.

    far: also from one replaced byte (names of at most 256 bytes), and from two flipped bits (at most 32 bytes).
    """
    encoded, table = bytearray(entry.name.encode()), reader.header.string_table_offset
    offset, size = entry.name_offset or 0, len(encoded)
    for bit in range(32):
        yield _name_at(reader, offset ^ 1 << bit, size, table)
    for bit in range(16):
        yield _name_at(reader, offset, size ^ 1 << bit, table)
    for position in range(size if size <= _MAX_FLIPPED_NAME else 0):
        for change in range(1, 256) if far and size <= _MAX_HASHED_NAME else _BITS:
            yield _flip(encoded, (position, change))
    bits = [(position, bit) for position in range(size) for bit in _BITS] if far and size <= _MAX_PAIRED_NAME else []
    yield from (_flip(encoded, *pair) for pair in combinations(bits, 2))


def _flip(encoded: bytearray, *changes: tuple[int, int]) -> str:
    changed = bytearray(encoded)
    for position, change in changes:
        changed[position] ^= change
    return changed.decode(errors="ignore")


def _name_at(reader: NamedBlocks, offset: int, size: int, table: int) -> str:
    """Return the name at this offset of the string table, "" for none, and for a long one."""
    start = table + offset
    if size > _MAX_FLIPPED_NAME or start + size > reader.header.data_section_offset:
        return ""
    return bytes(reader.read_range(start, start + size)).decode(errors="ignore")


def _fnv(name: str) -> int:
    """Return the FNV-1a of the UTF-8 name, which one writer stores."""
    state = _FNV_OFFSET_BASIS
    for byte in name.encode():
        state = (state ^ byte) * _FNV_PRIME & (1 << 64) - 1
    return state


_HASH_FUNCTIONS: Final = (name_hash, _fnv)
