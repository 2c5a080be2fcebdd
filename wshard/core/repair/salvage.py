"""Save the intact blocks of a damaged file."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from wshard.core.container.layout import (
    ALIGNMENTS,
    DEFAULT_ALIGNMENT,
    ENTRY_LZ4,
    ENTRY_ZSTD,
    FLAG_HAS_CHECKSUMS,
    FLAG_HAS_SCHEMA,
    ROLE_UNKNOWN,
    ROLE_WSHARD,
)
from wshard.core.container.metadata import ShardMetadata
from wshard.core.container.stream_writer import ShardStreamWriter
from wshard.core.episode.meta_reader import META_BLOCKS, META_CHANNELS, META_WSHARD, read_description
from wshard.core.repair.damaged_index import find_misfit, read_intact_description
from wshard.core.repair.report import Damage, RepairReport
from wshard.errors import FormatError, OverlapError, RepairError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wshard.core.container.layout import IndexEntry
    from wshard.core.container.reader import ShardReader


_UNNAMED_PREFIX: Final = "unproved/"  # and a number: an intact block whose name is unknown


def shorten(reader: ShardReader, error: FormatError) -> str:
    """Return the error's text without the file, which a report names once."""
    return str(error).removeprefix(f"{reader.where}: ")


def salvage(
    reader: ShardReader, errors: Mapping[int, str], doubts: Mapping[int, str], section: _Section
) -> tuple[RepairReport, Callable[[Path], None]]:
    """Return a report on what can be saved of a damaged file, and a function that writes it to a path."""
    reasons = {**doubts, **errors}
    last_of_name = {entry.name: number for number, entry in enumerate(reader.entries) if number not in doubts}
    reasons |= {
        number: f"block {entry.name!r}: a later block has the same name"
        for number, entry in enumerate(reader.entries)
        if number not in reasons and last_of_name[entry.name] != number
    }
    mixed = _find_mixed(reader, [number for number in range(len(reader)) if number not in errors])
    reasons = mixed | reasons
    readable = [number for number in range(len(reader)) if number not in reasons]
    if reader.header.role == ROLE_WSHARD:
        description = read_intact_description(reader, readable)
        reasons |= {number: reason for number in readable if (reason := find_misfit(reader, number, description))}
    intact = {reader.entries[number].name: number for number in readable if number not in reasons}
    unnamed = {f"{_UNNAMED_PREFIX}{number}": number for number in doubts if _is_whole(reader, number, errors, mixed)}
    unrecovered: dict[str, str] = {}
    for number, reason in sorted(reasons.items()):
        name, saved = reader.entries[number].name, f"{_UNNAMED_PREFIX}{number}"
        suffix = f"; its bytes are kept as {saved!r}" if saved in unnamed else ""
        unrecovered[f"entry {number}" if name in intact or name in unrecovered else name] = reason + suffix
    unrecovered |= {_part_of(problem): problem for problem in map(partial(shorten, reader), _index_problems(reader))}
    intact |= unnamed
    if not set(intact) - (set(META_BLOCKS) if reader.header.role == ROLE_WSHARD else set()):
        raise RepairError(
            f"{reader.where}: no data block is intact: {'; '.join(unrecovered.values()) or 'there is none'}"
        )
    role, notes = _choose_role(reader, intact)
    unrecovered |= section.unrecovered
    report = RepairReport(
        reader.where,
        Damage.DAMAGED,
        recovered=tuple(sorted(intact)),
        unrecovered=unrecovered,
        unchecked=tuple(sorted(name for name, number in intact.items() if has_no_checksum(reader, number))),
        notes=(*_size_notes(reader), *section.notes, *notes),
    )
    return report, partial(_write, reader, role, intact, _mark_repaired(section.metadata, unrecovered))


def _is_whole(reader: ShardReader, number: int, *excluding: Mapping[int, str]) -> bool:
    """Return True if a block is intact and only its name is in doubt."""
    entry = reader.entries[number]
    return bool(entry.disk_size and entry.checksum) and not any(number in reasons for reasons in excluding)


def _index_problems(reader: ShardReader) -> list[FormatError]:
    return [problem for problem in reader.problems if not isinstance(problem, OverlapError)]


def _part_of(problem: str) -> str:
    """Return the block or index entry that a message is about: the text before its first colon."""
    return problem.partition(":")[0].removeprefix("block ").strip("'")


def _find_mixed(reader: ShardReader, readable: Sequence[int]) -> dict[int, str]:
    """Return the blocks whose correct checksums prove nothing, since other blocks may share their bytes, with reasons.

    A stream writer that interleaves its flushes leaves correct checksums over mixed rows. If its blocks, including
    damaged and truncated ones, follow each other without a gap, there was only one flush.
    """
    entries = [*reader.entries, *reader.outside]
    if _is_streamed(reader) and not _are_consecutive(entries):
        names = ((number, reader.entries[number].name) for number in readable)
        reason = "its writer streams, and damage hides whether its rows are mixed with others'"
        return {number: f"block {name!r}: {reason}" for number, name in names if name not in META_BLOCKS}
    reasons: dict[int, str] = {}
    last_stop, last = 0, -1
    for number in sorted(readable, key=lambda number: reader.entries[number].data_offset):
        entry = reader.entries[number]
        if entry.disk_size and entry.data_offset < last_stop:
            for block, neighbor in ((number, last), (last, number)):
                name, neighbor_name = reader.entries[block].name, reader.entries[neighbor].name
                reasons.setdefault(block, f"block {name!r}: it shares bytes with {neighbor_name!r}")
        if entry.data_offset + entry.disk_size > last_stop:
            last_stop, last = entry.data_offset + entry.disk_size, number
    return reasons


def _are_consecutive(entries: Sequence[IndexEntry]) -> bool:
    blocks = sorted((entry for entry in entries if entry.disk_size), key=lambda entry: entry.data_offset)
    gaps = (right.data_offset - left.data_offset - left.disk_size for left, right in pairwise(blocks))
    return all(0 <= gap < DEFAULT_ALIGNMENT for gap in gaps)


def _is_streamed(reader: ShardReader) -> bool:
    """Return True unless the file states that no stream writer made it."""
    if reader.header.role != ROLE_WSHARD:
        return False
    try:
        return read_description({META_WSHARD: reader.block(META_WSHARD)}, reader.where).streaming
    except (FormatError, KeyError):
        return True


@dataclass(frozen=True)
class _Section:
    """The metadata of the JSON section if readable, notes on its offset, and the reason if it is lost."""

    metadata: ShardMetadata | None
    notes: tuple[str, ...] = ()
    unrecovered: Mapping[str, str] = field(default_factory=dict)


def read_section(reader: ShardReader) -> _Section:
    """Return the metadata of the JSON section, or why it cannot be read."""
    try:
        return _Section(reader.read_metadata())
    except FormatError as error:
        reason = shorten(reader, error)
    with contextlib.suppress(FormatError):  # perhaps only its offset in the header is damaged
        metadata = ShardMetadata.from_json(bytes(reader.behind_blocks()))
        return _Section(metadata, (f"{reason}; it was recovered after the last block",))
    if not reader.header.flags & FLAG_HAS_SCHEMA:
        return _Section(None, (f"{reason}; there is none",))
    return _Section(None, (reason,), {"JSON section": reason})


def _size_notes(reader: ShardReader) -> tuple[str, ...]:
    expected, found = reader.header.total_file_size, reader.size
    return () if expected == found else (f"the file should have {expected} bytes and has {found}",)


def _choose_role(reader: ShardReader, intact: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
    """Return the role of the repaired file: without a description of its lanes it is a plain container."""
    if reader.header.role != ROLE_WSHARD or META_CHANNELS in intact:
        return reader.header.role, ()
    reason = f"{META_CHANNELS} is lost, and the lanes cannot be identified without it"
    return ROLE_UNKNOWN, (f"{reason}: the blocks are kept in a plain container, role {ROLE_UNKNOWN}",)


def has_no_checksum(reader: ShardReader, number: int) -> bool:
    """Return True if no checksum covers the bytes of a block."""
    entry = reader.entries[number]
    return bool(entry.disk_size and not entry.checksum and not reader.header.flags & FLAG_HAS_CHECKSUMS)


def _mark_repaired(metadata: ShardMetadata | None, unrecovered: Mapping[str, str]) -> ShardMetadata | None:
    if not unrecovered:
        return metadata
    metadata = metadata or ShardMetadata()
    return replace(metadata, extra={**metadata.extra, "repaired": {"lost": dict(unrecovered)}})


def _write(
    reader: ShardReader, role: int, intact: Mapping[str, int], metadata: ShardMetadata | None, target: Path
) -> None:
    header = reader.header
    alignment = header.alignment if header.alignment in ALIGNMENTS else DEFAULT_ALIGNMENT
    tags_by_bit = metadata.tag_dictionary if metadata else []
    with ShardStreamWriter(target, role, len(intact), alignment=alignment) as writer:
        if metadata is not None:
            writer.set_metadata(metadata)
        writer.begin_data()
        for name, number in sorted(intact.items()):
            entry = reader.entries[number]
            writer.write_entry(
                name,
                reader.block(number),
                compression="zstd" if entry.flags & ENTRY_ZSTD else "lz4" if entry.flags & ENTRY_LZ4 else "none",
                content_type=entry.content_type,
                tags=[tag for bit, tag in enumerate(tags_by_bit) if entry.has_tag_bit(bit)],
            )
