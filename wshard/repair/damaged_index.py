"""Reconstruct header, index and names of a damaged file from the rest of the file."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Final

from wshard.container.index import find_emptied
from wshard.container.layout import (
    DATA_OFFSET_FIELD,
    HEADER_SIZE,
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    ROLE_UNKNOWN,
    ROLE_WSHARD,
)
from wshard.container.name_hashes import count_room, count_uncounted, find_misnamed, hashes_of, is_table_moved
from wshard.episode.encoded_lane import frames_of
from wshard.episode.lanes import declaration_of, known_blocks, lane_shape
from wshard.episode.meta_reader import META_BLOCKS, Description, read_description
from wshard.errors import FormatError, LaneError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wshard.container.reader import ShardReader

_META_KEYS: Final = {"meta/channels": "channels", "meta/episode": "episode_id"}  # what every writer puts there alone


def restore_index(reader: ShardReader) -> tuple[list[str], dict[int, str]]:
    """Restore the counts, offsets and names of entries from the stored hashes.

    Returns notes on what was restored, and by number why other blocks do not match their entry (R-11 to R-13).
    """
    notes = _restore_header(reader)
    unproved: set[int] = set()
    for _ in range(2):  # again with what a meta block declares that has its name back
        notes += _restore_role(reader)
        known = (
            known_blocks(described(reader, range(len(reader)))) if reader.header.role == ROLE_WSHARD else frozenset()
        )
        stored = {entry.name_hash for entry in (*reader.entries, *reader.outside)}
        given, unproved = find_misnamed(reader, known), set()
        for number, name in given.items():
            entry = reader.entries[number]
            if name == entry.name:
                notes.append(f"block {name!r}: a bit of its stored hash is damaged")
            elif name is None or (entry.name in known and not stored & hashes_of(entry.name)):
                unproved.add(number)  # the second: name and hash are two known blocks', and either may be damaged
            else:
                reader.rename(number, name)
                notes.append(f"block {name!r} has its name back: damage had made it {entry.name!r}")
    notes += _leave_role(reader)
    names = {number: reader.entries[number].name for number in sorted(unproved)}
    doubts = {
        number: f"block {name!r}: its stored hash is not that of its name: one of both is damaged"
        for number, name in names.items()
        if name not in META_BLOCKS  # these tell what they are
    }
    return list(dict.fromkeys(notes)), doubts | _hollow(reader) | _rivals(reader, unproved) | _find_foreign_meta(reader)


def _restore_header(reader: ShardReader) -> list[str]:
    notes, header = [], reader.header
    if is_table_moved(reader):
        header = header._replace(string_table_offset=HEADER_SIZE + header.entry_count * INDEX_ENTRY_SIZE)
        reader.rescan(header)
        notes.append("the string table offset in the header was wrong: it was restored from the hashes")
    if more := count_uncounted(reader) or count_room(header):
        header = header._replace(entry_count=header.entry_count + more)
        reader.rescan(header)
        notes.append(f"the header left out {more} of {header.entry_count} entries of the index: they are back")
    if _is_section_elsewhere(reader):
        header = reader.header
        notes.append("the offset of the first block in the header was wrong: it was restored from the index")
    return notes


def _restore_role(reader: ShardReader) -> list[str]:
    if not is_episode_by_another_role(reader):
        return []
    note = f"the header said role {reader.header.role}: its blocks are those of an episode, role {ROLE_WSHARD}"
    reader.header = reader.header._replace(role=ROLE_WSHARD)
    return [note]


def _leave_role(reader: ShardReader) -> list[str]:
    """Treat a file without any meta block as a plain container; its original role is unknown."""
    named = set(reader.names())
    if reader.header.role != ROLE_WSHARD or not named or named & set(META_BLOCKS) or reader.outside:
        return []
    reader.header = reader.header._replace(role=ROLE_UNKNOWN)
    return [f"the header said role {ROLE_WSHARD}, an episode: it has none of {', '.join(META_BLOCKS)}"]


def _is_section_elsewhere(reader: ShardReader) -> bool:
    """Take the offset of the first block for that of the data section, if then less is wrong with the index."""
    header, before = reader.header, len(reader.problems)
    end = HEADER_SIZE + header.entry_count * INDEX_ENTRY_SIZE
    rows = INDEX_ENTRY.iter_unpack(reader.read_range(HEADER_SIZE, end)) if before else ()
    first = min(
        (row[DATA_OFFSET_FIELD] for row in rows if row[DATA_OFFSET_FIELD] >= end), default=header.data_section_offset
    )
    if header.string_table_offset <= first <= reader.size and first != header.data_section_offset:
        reader.rescan(header._replace(data_section_offset=first))
        if len(reader.problems) < before:
            return True
        reader.rescan(header)
    return False


def is_episode_by_another_role(reader: ShardReader) -> bool:
    """Say whether a bit of the role is flipped of what has all three meta blocks of an episode."""
    return (reader.header.role ^ ROLE_WSHARD).bit_count() == 1 and all(name in reader for name in META_BLOCKS)


def described(reader: ShardReader, numbers: Iterable[int]) -> Description:
    """Return the contents of the intact meta blocks among these blocks; nothing if they cannot be read."""
    meta = {}
    for number in numbers:
        with contextlib.suppress(FormatError):
            if reader.entries[number].name in META_BLOCKS:
                meta[reader.entries[number].name] = reader.block(number)
    try:
        return read_description(meta, reader.where)
    except FormatError:
        return Description("unknown")


def misfit(reader: ShardReader, number: int, about: Description) -> str:
    """Return why a block cannot be the lane of its name, "" if it can."""
    entry = reader.entries[number]
    lane = None if entry.name in META_BLOCKS else declaration_of(entry.name, entry.orig_size, about)
    try:
        if lane is not None and lane.encoding:
            frames_of(lane, reader.block(number), about.length or 0, reader.where)
        elif lane is not None:
            lane_shape(lane, entry.orig_size, about.length, reader.where)
    except LaneError as error:
        return str(error).removeprefix(f"{reader.where}: ")
    return ""


def _find_foreign_meta(reader: ShardReader) -> dict[int, str]:
    """Return the meta blocks whose content is that of another meta block."""
    found: dict[int, str] = {}
    for number, entry in enumerate(reader.entries):
        if reader.header.role != ROLE_WSHARD or entry.name not in META_BLOCKS:
            continue
        with contextlib.suppress(FormatError, ValueError, RecursionError):  # what cannot be read is found elsewhere
            content = json.loads(bytes(reader.block(number)))
            keys = content.keys() if isinstance(content, dict) else ()
            others = [name for name, key in _META_KEYS.items() if name != entry.name and key in keys]
            if others and _META_KEYS.get(entry.name) not in keys:
                found[number] = f"block {entry.name!r}: it has the content of {others[0]!r}"
    return found


def _hollow(reader: ShardReader) -> dict[int, str]:
    """Return the blocks that an empty entry stands for, which no checksum can prove: their bytes are still there."""
    empty = [number for number, entry in enumerate(reader.entries) if not entry.orig_size]
    if not empty:
        return {}
    emptied = find_emptied(reader.entries, reader.header, reader.size, reader.read_range, reader.outside)
    about = described(reader, range(len(reader))) if reader.header.role == ROLE_WSHARD else Description("unknown")
    found: dict[int, str] = {}
    for number in empty:
        entry = reader.entries[number]
        if entry.name in META_BLOCKS:
            found[number] = f"block {entry.name!r}: its entry says 0 bytes, expected JSON"
        elif gap := emptied.get(number):
            found[number] = (
                f"block {entry.name!r}: its entry says 0 bytes, but {gap} that no other block claims are at its offset"
            )
        elif why := misfit(reader, number, about):
            found[number] = why
    return found


def _rivals(reader: ShardReader, unproved: set[int]) -> dict[int, str]:
    """Return the blocks whose name another entry claims with an equal or better match."""
    claims: dict[str, list[int]] = {}
    for number, entry in enumerate(reader.entries):
        claims.setdefault(entry.name, []).append(number)
    hashes = {entry.name_hash for entry in reader.outside}
    found: dict[int, str] = {}
    for name, numbers in claims.items():
        outside = bool(hashes & hashes_of(name))
        if len(numbers) + outside == 1:
            continue
        proved = [number for number in numbers if number not in unproved]
        if len(proved) == 1 and not outside:
            why, right = "another entry has this name by its hash", proved
        else:
            why, right = (
                "another entry has the same name",
                [] if outside or not _written_twice(reader, proved, numbers) else numbers,
            )
        found |= {number: f"block {name!r}: {why}" for number in numbers if number not in right}
    return found


def _written_twice(reader: ShardReader, proved: Sequence[int], numbers: Sequence[int]) -> bool:
    """Say whether a container was given several blocks of one name, each with the name (C-12): no entry is a copy."""
    places = {reader.entries[number].name_offset for number in proved}
    return reader.header.role != ROLE_WSHARD and len(places) == len(numbers) and None not in places
