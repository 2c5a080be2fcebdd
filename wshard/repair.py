"""Repair files: restore interleaved recordings exactly, and save from damaged ones every block that is proved whole.

Knows: what may be trusted, and how to say what was lost. Never guesses values.
Does not know: recordings that were killed (recovery.py), how blocks interleave (interleaved.py).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wshard.codec_plan import CodecPlan
from wshard.container import ShardReader
from wshard.entry_names import changed_names, uncounted
from wshard.episode_file import store
from wshard.errors import FormatError, OverlapError, RecordingExistsError, RepairError
from wshard.interleaved import deinterleave
from wshard.lanes import TICKS, declaration_of, known_blocks
from wshard.layout import ALIGNMENTS, DEFAULT_ALIGNMENT, ENTRY_LZ4, ENTRY_ZSTD, FLAG_HAS_CHECKSUMS, ROLE_WSHARD
from wshard.meta import META_BLOCKS, META_WSHARD, Description, read_description
from wshard.metadata import ShardMetadata
from wshard.publishing import sync_folder
from wshard.shard_stream import ShardStreamWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wshard.layout import Buffer, IndexEntry


class Damage(StrEnum):
    """What was found."""

    INTACT = "intact"
    INTERLEAVED = "interleaved"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class RepairReport:
    """What was wrong with a file and what became of it.

    output: the repaired file, None if nothing needed repair. kept: names of the blocks in it. lost: why, by the name of
    each block that is not. unchecked: kept blocks that have no checksum. notes: what else a reader should know.
    """

    path: str
    damage: Damage
    output: str | None = None
    backup: str | None = None
    kept: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if nothing was lost."""
        return not self.lost


def repair(
    path: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, *, in_place: bool = False
) -> RepairReport:
    """Repair a file into `output` (default: NAME.repaired.SUFFIX beside it) and say what was lost.

    in_place: put the repaired file where the damaged one was, which stays as FILE.bak. Nothing else is overwritten.
    An intact file is left alone. Raises RepairError where nothing can be restored for certain, HeaderError and
    IndexCorruptError where the front of the file is destroyed, RecordingExistsError, OSError.
    """
    source = Path(path)
    target = source.with_name(f"{source.stem}.repaired{source.suffix}") if output is None else Path(output)
    backup = source.with_name(f"{source.name}.bak")
    with ShardReader(source, damaged=True) as reader:
        report, write = _examine(reader)
        if write is None:
            return report
        busy = backup if in_place else target
        if busy.exists():
            raise RecordingExistsError(f"{busy} exists already: move it away, or name another file")
        if not in_place:
            write(target)
            return replace(report, output=str(target))
        _replace(source, backup, write)
    return replace(report, output=str(source), backup=str(backup))


def _replace(source: Path, backup: Path, write: Callable[[Path], None]) -> None:
    """Write the repaired file beside the damaged one, which gets a second name before it loses its own."""
    final = Path(os.path.realpath(source))
    temporary = final.with_name(f".{final.name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        write(temporary)
        try:
            os.link(final, backup)
        except FileExistsError:
            raise RecordingExistsError(f"{backup} exists already: move it away") from None
        except OSError:  # not every file system has links
            shutil.copy2(final, backup)
        temporary.replace(final)
    except OSError as error:
        if error.filename == str(temporary):
            error.filename = str(final)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(final.parent)


def _examine(reader: ShardReader) -> tuple[RepairReport, Callable[[Path], None] | None]:
    """Return what is wrong, and how to write the repaired file; None if nothing is wrong."""
    named, errors = _name_notes(reader), _unreadable(reader)
    shared = any(isinstance(problem, OverlapError) for problem in reader.problems)
    cut = reader.header.total_file_size != reader.size
    if not (errors or reader.problems or cut or named):
        return RepairReport(reader.where, Damage.INTACT, kept=tuple(reader.names())), None
    interleaved = shared and not errors and reader.header.role == ROLE_WSHARD
    report, write = _restore(reader) if interleaved else _salvage(reader, errors)
    return replace(report, notes=(*named, *report.notes)), write


def _name_notes(reader: ShardReader) -> list[str]:
    """Give blocks of an episode back the names that damage has changed or left out, and tell of each."""
    notes: list[str] = []
    if reader.header.role != ROLE_WSHARD:
        return notes
    if more := uncounted(reader):
        reader.recount(reader.header.entry_count + more)
        notes.append(f"the header left out {more} of {reader.header.entry_count} entries of the index: they are back")
    for _ in range(2):  # again with what a meta block declares that has its name back
        for number, given in changed_names(reader, known_blocks(_described(reader))).items():
            entry = reader.entries[number]
            if given not in reader.names():
                reader.entries[number] = entry._replace(name=given)
                notes.append(f"block {given!r} has its name back: damage had made it {entry.name!r}")
    return notes


def _described(reader: ShardReader) -> Description:
    meta = {}
    for number, entry in enumerate(reader.entries):
        with contextlib.suppress(FormatError):
            if entry.name in META_BLOCKS:
                meta[entry.name] = reader.block(number)
    try:
        return read_description(meta, reader.where)
    except FormatError:
        return Description("unknown")


def _unreadable(reader: ShardReader) -> dict[int, str]:
    errors = {}
    for number in range(len(reader)):
        try:
            reader.block(number)
        except FormatError as error:
            errors[number] = _reason(reader, error)
    return errors


def _reason(reader: ShardReader, error: FormatError) -> str:
    return str(error).removeprefix(f"{reader.where}: ")


# ---- interleaved recordings ----------------------------------------------------------------------------------------


def _restore(reader: ShardReader) -> tuple[RepairReport, Callable[[Path], None]]:
    restored = deinterleave(reader)
    about, lanes = restored.about, restored.lanes
    sizes = {name: sum(len(piece) for piece in pieces) for name, pieces in lanes.items()}
    found = {name: declaration_of(name, size, about) for name, size in sizes.items()}
    declared = {name: lane for name, lane in found.items() if lane and name.startswith(("signal/", "action/"))}
    about = replace(about, declared=declared)
    ticks, length = b"".join(lanes.get(TICKS, ())), about.length or 0
    counted = np.array_equal(np.frombuffer(ticks, "<i4"), np.arange(length))
    notes = [] if counted else [f"{TICKS} does not count 0, 1, 2, ...: it holds what the recording program gave"]
    if restored.unproved is not None:
        notes.append(f"no checksum covers the rows from timestep {restored.unproved} on: that writer left none")
    report = RepairReport(
        reader.where, Damage.INTERLEAVED, kept=tuple(sorted((*lanes, *META_BLOCKS))), notes=tuple(notes)
    )
    return report, partial(_save, about, lanes)


def _save(about: Description, lanes: Mapping[str, Sequence[Buffer]], target: Path) -> None:
    store(target, about, lanes, CodecPlan.of("none"))


# ---- other damage --------------------------------------------------------------------------------------------------


def _salvage(reader: ShardReader, errors: Mapping[int, str]) -> tuple[RepairReport, Callable[[Path], None]]:
    lost = {reader.entries[number].name: error for number, error in errors.items()}
    lost |= {_culprit(problem): problem for problem in map(partial(_reason, reader), _index_problems(reader))}
    whole = [number for number in range(len(reader)) if number not in errors]
    mixed = _mixed(reader, whole)
    lost |= {reader.entries[number].name: reason for number, reason in mixed.items()}
    kept: dict[str, int] = {}
    for number in (number for number in whole if number not in mixed):
        name = reader.entries[number].name
        if name in kept:
            lost[f"entry {kept[name]}"] = f"block {name!r}: a later block has the same name"
        kept[name] = number
    if not set(kept) - (set(META_BLOCKS) if reader.header.role == ROLE_WSHARD else set()):
        raise RepairError(f"{reader.where}: no block of data is whole: {'; '.join(lost.values()) or 'there is none'}")
    about, notes = _section(reader)
    report = RepairReport(
        reader.where,
        Damage.DAMAGED,
        kept=tuple(sorted(kept)),
        lost=lost,
        unchecked=tuple(sorted(name for name, number in kept.items() if _unchecked(reader, number))),
        notes=(*_size_notes(reader), *notes, *_episode_notes(reader, kept)),
    )
    return report, partial(_write, reader, kept, _marked(about, lost))


def _index_problems(reader: ShardReader) -> list[FormatError]:
    return [problem for problem in reader.problems if not isinstance(problem, OverlapError)]


def _culprit(problem: str) -> str:
    """Return the block or index entry that a message is about: what stands before its first colon."""
    return problem.partition(":")[0].removeprefix("block ").strip("'")


def _mixed(reader: ShardReader, whole: Sequence[int]) -> dict[int, str]:
    """Return the blocks whose right checksums prove nothing: others claim the same bytes, or may have before damage.

    A stream writer that interleaves its flushes leaves right checksums over mixed rows. That its blocks, damaged ones
    and those that were cut off included, follow each other without a gap shows that there was one flush only.
    """
    stated = [*reader.entries, *reader.outside]
    if _streamed(reader) and not _consecutive(stated):
        names = ((number, reader.entries[number].name) for number in whole)
        reason = "its writer streams, and damage hides whether its rows are mixed with others'"
        return {number: f"block {name!r}: {reason}" for number, name in names if name not in META_BLOCKS}
    found: dict[int, str] = {}
    reached, last = 0, -1
    for number in sorted(whole, key=lambda number: reader.entries[number].data_offset):
        entry = reader.entries[number]
        if entry.disk_size and entry.data_offset < reached:
            for one, other in ((number, last), (last, number)):
                name, rival = reader.entries[one].name, reader.entries[other].name
                found.setdefault(one, f"block {name!r}: it shares bytes with {rival!r}")
        if entry.data_offset + entry.disk_size > reached:
            reached, last = entry.data_offset + entry.disk_size, number
    return found


def _consecutive(entries: Sequence[IndexEntry]) -> bool:
    blocks = sorted((entry for entry in entries if entry.disk_size), key=lambda entry: entry.data_offset)
    gaps = (right.data_offset - left.data_offset - left.disk_size for left, right in pairwise(blocks))
    return all(0 <= gap < DEFAULT_ALIGNMENT for gap in gaps)


def _streamed(reader: ShardReader) -> bool:
    """Return True unless the file says that no stream writer made it."""
    if reader.header.role != ROLE_WSHARD:
        return False
    try:
        return read_description({META_WSHARD: reader.block(META_WSHARD)}, reader.where).streaming
    except (FormatError, KeyError):
        return True


def _section(reader: ShardReader) -> tuple[ShardMetadata | None, tuple[str, ...]]:
    try:
        return reader.read_metadata(), ()
    except FormatError as error:
        return None, (f"lost: {_reason(reader, error)}",)


def _size_notes(reader: ShardReader) -> tuple[str, ...]:
    expected, found = reader.header.total_file_size, reader.size
    return () if expected == found else (f"the file should have {expected} bytes and has {found}",)


def _episode_notes(reader: ShardReader, kept: Mapping[str, int]) -> tuple[str, ...]:
    if reader.header.role != ROLE_WSHARD or any(name in kept for name in META_BLOCKS):
        return ()
    return ("no meta block is left: the blocks are safe, but nothing tells what they mean",)


def _unchecked(reader: ShardReader, number: int) -> bool:
    entry = reader.entries[number]
    return bool(entry.disk_size and not entry.checksum and not reader.header.flags & FLAG_HAS_CHECKSUMS)


def _marked(about: ShardMetadata | None, lost: Mapping[str, str]) -> ShardMetadata | None:
    if not lost:
        return about
    about = about or ShardMetadata()
    return replace(about, extra={**about.extra, "repaired": {"lost": dict(lost)}})


def _write(reader: ShardReader, kept: Mapping[str, int], about: ShardMetadata | None, target: Path) -> None:
    header = reader.header
    alignment = header.alignment if header.alignment in ALIGNMENTS else DEFAULT_ALIGNMENT
    words = about.tag_dictionary if about else []
    with ShardStreamWriter(target, header.role, len(kept), alignment=alignment) as writer:
        if about is not None:
            writer.set_metadata(about)
        writer.begin_data()
        for name, number in sorted(kept.items()):
            entry = reader.entries[number]
            writer.write_entry(
                name,
                reader.block(number),
                compression="zstd" if entry.flags & ENTRY_ZSTD else "lz4" if entry.flags & ENTRY_LZ4 else "none",
                content_type=entry.content_type,
                tags=[word for bit, word in enumerate(words) if entry.has_tag_bit(bit)],
            )
