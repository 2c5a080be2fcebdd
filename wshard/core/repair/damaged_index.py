"""Reconstruct header, index and names of a damaged file from the rest of the file."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Final

from wshard.core.container.index import find_emptied
from wshard.core.container.layout import (
    DATA_OFFSET_FIELD,
    HEADER_SIZE,
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    ROLE_UNKNOWN,
    ROLE_WSHARD,
)
from wshard.core.container.name_hashes import count_room, count_uncounted, find_misnamed, hashes_of, is_table_moved
from wshard.core.episode.encoded_lane import frames_of
from wshard.core.episode.lanes import declaration_of, known_blocks, lane_shape
from wshard.core.episode.meta_reader import META_BLOCKS, Description, read_description
from wshard.errors import FormatError, LaneError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wshard.core.container.reader import ShardReader

# Per block, a key that every writer puts there and into no other block.
_KEY_OF_META_BLOCK: Final = {"meta/channels": "channels", "meta/episode": "episode_id"}


def restore_index(reader: ShardReader) -> tuple[list[str], dict[int, str]]:
    """Restore the counts, offsets and names of entries from the stored hashes.

    Returns notes on what was restored, and by number why other blocks do not match their entry (R-11 to R-13).
    """
    notes = _restore_header(reader)
    uncertain: set[int] = set()
    for _ in range(2):  # twice: a renamed meta block may declare further lanes
        notes += _restore_role(reader)
        is_episode = reader.header.role == ROLE_WSHARD
        known_names = known_blocks(read_intact_description(reader, range(len(reader)))) if is_episode else frozenset()
        stored_hashes = {entry.name_hash for entry in (*reader.entries, *reader.outside)}
        corrected_names, uncertain = find_misnamed(reader, known_names), set()
        for number, name in corrected_names.items():
            entry = reader.entries[number]
            if name == entry.name:
                notes.append(f"block {name!r}: a bit of its stored hash is damaged")
            elif name is None or (entry.name in known_names and not stored_hashes & hashes_of(entry.name)):
                uncertain.add(number)  # or name and hash belong to two known blocks, and either may be damaged
            else:
                reader.rename(number, name)
                notes.append(f"block {name!r} has its name back: damage had made it {entry.name!r}")
    notes += _reset_role(reader)
    names = {number: reader.entries[number].name for number in sorted(uncertain)}
    doubts = {
        number: f"block {name!r}: its stored hash is not that of its name: one of both is damaged"
        for number, name in names.items()
        if name not in META_BLOCKS  # recognised by their content
    }
    doubts |= _find_emptied(reader) | _find_rivals(reader, uncertain) | _find_foreign_meta(reader)
    return list(dict.fromkeys(notes)), doubts


def _restore_header(reader: ShardReader) -> list[str]:
    notes, header = [], reader.header
    if is_table_moved(reader):
        header = header._replace(string_table_offset=HEADER_SIZE + header.entry_count * INDEX_ENTRY_SIZE)
        reader.rescan(header)
        notes.append("the string table offset in the header was wrong: it was restored from the hashes")
    if missing_count := count_uncounted(reader) or count_room(header):
        header = header._replace(entry_count=header.entry_count + missing_count)
        reader.rescan(header)
        notes.append(f"the header left out {missing_count} of {header.entry_count} entries of the index: they are back")
    if _restore_data_offset(reader):
        header = reader.header
        notes.append("the offset of the first block in the header was wrong: it was restored from the index")
    return notes


def _restore_role(reader: ShardReader) -> list[str]:
    if not has_flipped_episode_role(reader):
        return []
    note = f"the header said role {reader.header.role}: its blocks are those of an episode, role {ROLE_WSHARD}"
    reader.header = reader.header._replace(role=ROLE_WSHARD)
    return [note]


def _reset_role(reader: ShardReader) -> list[str]:
    """Treat a file without any meta block as a plain container; its original role is unknown."""
    names = set(reader.names())
    if reader.header.role != ROLE_WSHARD or not names or names & set(META_BLOCKS) or reader.outside:
        return []
    reader.header = reader.header._replace(role=ROLE_UNKNOWN)
    return [f"the header said role {ROLE_WSHARD}, an episode: it has none of {', '.join(META_BLOCKS)}"]


def _restore_data_offset(reader: ShardReader) -> bool:
    """Set the data section's offset to that of the first block if this solves problems; return True if so."""
    header, problem_count = reader.header, len(reader.problems)
    end = HEADER_SIZE + header.entry_count * INDEX_ENTRY_SIZE
    rows = INDEX_ENTRY.iter_unpack(reader.read_range(HEADER_SIZE, end)) if problem_count else ()
    first_block = min(
        (row[DATA_OFFSET_FIELD] for row in rows if row[DATA_OFFSET_FIELD] >= end), default=header.data_section_offset
    )
    if header.string_table_offset <= first_block <= reader.size and first_block != header.data_section_offset:
        reader.rescan(header._replace(data_section_offset=first_block))
        if len(reader.problems) < problem_count:
            return True
        reader.rescan(header)
    return False


def has_flipped_episode_role(reader: ShardReader) -> bool:
    """Return True for a file with all three meta blocks of an episode whose role differs from it by one bit."""
    return (reader.header.role ^ ROLE_WSHARD).bit_count() == 1 and all(name in reader for name in META_BLOCKS)


def read_intact_description(reader: ShardReader, numbers: Iterable[int]) -> Description:
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


def find_misfit(reader: ShardReader, number: int, description: Description) -> str:
    """Return why the contents of a block do not fit the lane of its name, "" if they fit."""
    entry = reader.entries[number]
    lane = None if entry.name in META_BLOCKS else declaration_of(entry.name, entry.orig_size, description)
    try:
        if lane is not None and lane.encoding:
            frames_of(lane, reader.block(number), description.length or 0, reader.where)
        elif lane is not None:
            lane_shape(lane, entry.orig_size, description.length, reader.where)
    except LaneError as error:
        return str(error).removeprefix(f"{reader.where}: ")
    return ""


def _find_foreign_meta(reader: ShardReader) -> dict[int, str]:
    """Return by number the meta blocks whose content is that of another meta block, with the reason."""
    reasons: dict[int, str] = {}
    for number, entry in enumerate(reader.entries):
        if reader.header.role != ROLE_WSHARD or entry.name not in META_BLOCKS:
            continue
        with contextlib.suppress(FormatError, ValueError, RecursionError):  # unreadable blocks are reported elsewhere
            content = json.loads(bytes(reader.block(number)))
            keys = content.keys() if isinstance(content, dict) else ()
            others = [name for name, key in _KEY_OF_META_BLOCK.items() if name != entry.name and key in keys]
            if others and _KEY_OF_META_BLOCK.get(entry.name) not in keys:
                reasons[number] = f"block {entry.name!r}: it has the content of {others[0]!r}"
    return reasons


def _find_emptied(reader: ShardReader) -> dict[int, str]:
    """Return by number, with reasons, the blocks whose entries wrongly say 0 bytes, which no checksum reveals."""
    empty = [number for number, entry in enumerate(reader.entries) if not entry.orig_size]
    if not empty:
        return {}
    emptied = find_emptied(reader.entries, reader.header, reader.size, reader.read_range, reader.outside)
    is_episode = reader.header.role == ROLE_WSHARD
    description = read_intact_description(reader, range(len(reader))) if is_episode else Description("unknown")
    reasons: dict[int, str] = {}
    for number in empty:
        entry = reader.entries[number]
        if entry.name in META_BLOCKS:
            reasons[number] = f"block {entry.name!r}: its entry says 0 bytes, expected JSON"
        elif gap := emptied.get(number):
            reasons[number] = (
                f"block {entry.name!r}: its entry says 0 bytes, but {gap} that no other block claims are at its offset"
            )
        elif reason := find_misfit(reader, number, description):
            reasons[number] = reason
    return reasons


def _find_rivals(reader: ShardReader, uncertain: set[int]) -> dict[int, str]:
    """Return by number the blocks whose name another entry claims with an equal or better match, with reasons."""
    claims: dict[str, list[int]] = {}
    for number, entry in enumerate(reader.entries):
        claims.setdefault(entry.name, []).append(number)
    outside_hashes = {entry.name_hash for entry in reader.outside}
    reasons: dict[int, str] = {}
    for name, numbers in claims.items():
        is_outside = bool(outside_hashes & hashes_of(name))
        if len(numbers) + is_outside == 1:
            continue
        certain = [number for number in numbers if number not in uncertain]
        if len(certain) == 1 and not is_outside:
            reason, accepted = "another entry has this name by its hash", certain
        else:
            reason, accepted = (
                "another entry has the same name",
                [] if is_outside or not _written_twice(reader, certain, numbers) else numbers,
            )
        reasons |= {number: f"block {name!r}: {reason}" for number in numbers if number not in accepted}
    return reasons


def _written_twice(reader: ShardReader, certain: Sequence[int], numbers: Sequence[int]) -> bool:
    """Return True if a container was written with several blocks of one name, each with its own name text (C-12)."""
    name_offsets = {reader.entries[number].name_offset for number in certain}
    return reader.header.role != ROLE_WSHARD and len(name_offsets) == len(numbers) and None not in name_offsets
