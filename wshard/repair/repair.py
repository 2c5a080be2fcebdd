"""Repair files: restore interleaved recordings exactly, and save from damaged ones every block that is proved whole.

Values are never guessed.
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
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.container.atomic_write import sync_folder
from wshard.container.codec_plan import CodecPlan
from wshard.container.layout import (
    ALIGNMENTS,
    DEFAULT_ALIGNMENT,
    ENTRY_LZ4,
    ENTRY_ZSTD,
    FLAG_HAS_CHECKSUMS,
    FLAG_HAS_SCHEMA,
    ROLE_UNKNOWN,
    ROLE_WSHARD,
)
from wshard.container.metadata import ShardMetadata
from wshard.container.reader import ShardReader
from wshard.container.stream_writer import ShardStreamWriter
from wshard.episode.file import EpisodeFile, store
from wshard.episode.lanes import TICKS, declaration_of
from wshard.episode.meta_reader import META_BLOCKS, META_CHANNELS, META_WSHARD, Description, read_description
from wshard.errors import FormatError, OverlapError, RecordingExistsError, RepairError
from wshard.repair.damaged_index import described, misfit, restore_index
from wshard.repair.interleaved import deinterleave

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wshard.container.layout import Buffer, IndexEntry


_NAMELESS: Final = "unproved/"  # and a number: what is whole, and nothing tells under which name it was written


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
        report, write = examine(reader)
        if write is None:
            return report
        busy = backup if in_place else target
        if busy.exists():
            raise RecordingExistsError(f"{busy} exists already: move it away, or name another file")
        _publish(source if in_place else target, backup if in_place else None, write)
    return replace(report, output=str(source if in_place else target), backup=str(backup) if in_place else None)


def _publish(path: Path, backup: Path | None, write: Callable[[Path], None]) -> None:
    """Write the repaired file, see that it can be read, and give it its name.

    backup: a second name for the damaged file, which has it before it loses its own.
    """
    final = Path(os.path.realpath(path))
    temporary = final.with_name(f".{final.name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        write(temporary)
        _check_repaired(temporary, path)
        if backup is not None:
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


def _check_repaired(temporary: Path, path: Path) -> None:
    """Raise RepairError unless all of what was written can be read."""
    try:
        with ShardReader(temporary) as reader:
            if wrong := next((error for _, error in reader.verify() if error), None):
                raise wrong
            if reader.header.role == ROLE_WSHARD:
                episode = EpisodeFile(reader)
                for name in episode.lanes():
                    episode.lane(name)
    except FormatError as error:
        reason = str(error).removeprefix(f"{temporary}: ")
        raise RepairError(f"{path}: what is whole makes no file that can be read: {reason}") from error


def examine(reader: ShardReader) -> tuple[RepairReport, Callable[[Path], None] | None]:
    """Return what is wrong with a file, and how to write the repaired one; None if nothing is wrong.

    The reader's entries get back the names that they were given. Raises RepairError where nothing can be restored.
    """
    notes, doubts = restore_index(reader)
    errors = _unreadable(reader)
    section = _section(reader)
    shared = any(isinstance(problem, OverlapError) for problem in reader.problems)
    cut = reader.header.total_file_size != reader.size
    if not (errors or doubts or notes or reader.problems or cut or section.note):
        return RepairReport(reader.where, Damage.INTACT, kept=tuple(reader.names())), None
    interleaved = shared and not (errors or doubts) and reader.header.role == ROLE_WSHARD
    report, write = _restore(reader) if interleaved else _salvage(reader, errors, doubts, section)
    return replace(report, notes=(*notes, *report.notes)), write


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


def _salvage(
    reader: ShardReader, errors: Mapping[int, str], doubts: Mapping[int, str], section: _Section
) -> tuple[RepairReport, Callable[[Path], None]]:
    bad = {**doubts, **errors}
    last = {entry.name: number for number, entry in enumerate(reader.entries) if number not in doubts}
    bad |= {
        number: f"block {entry.name!r}: a later block has the same name"
        for number, entry in enumerate(reader.entries)
        if number not in bad and last[entry.name] != number
    }
    mixed = _find_mixed(reader, [number for number in range(len(reader)) if number not in errors])
    bad = mixed | bad
    whole = [number for number in range(len(reader)) if number not in bad]
    if reader.header.role == ROLE_WSHARD:
        about = described(reader, whole)
        bad |= {number: why for number in whole if (why := misfit(reader, number, about))}
    kept = {reader.entries[number].name: number for number in whole if number not in bad}
    nameless = {f"{_NAMELESS}{number}": number for number in doubts if _is_whole(reader, number, errors, mixed)}
    lost: dict[str, str] = {}
    for number, why in sorted(bad.items()):
        name, saved = reader.entries[number].name, f"{_NAMELESS}{number}"
        reason = f"{why}; its bytes are kept as {saved!r}" if saved in nameless else why
        lost[f"entry {number}" if name in kept or name in lost else name] = reason
    lost |= {_culprit(problem): problem for problem in map(partial(_reason, reader), _index_problems(reader))}
    kept |= nameless
    if not set(kept) - (set(META_BLOCKS) if reader.header.role == ROLE_WSHARD else set()):
        raise RepairError(f"{reader.where}: no block of data is whole: {'; '.join(lost.values()) or 'there is none'}")
    role, notes = _role(reader, kept)
    lost |= section.lost
    report = RepairReport(
        reader.where,
        Damage.DAMAGED,
        kept=tuple(sorted(kept)),
        lost=lost,
        unchecked=tuple(sorted(name for name, number in kept.items() if has_no_checksum(reader, number))),
        notes=(*_size_notes(reader), *section.note, *notes),
    )
    return report, partial(_write, reader, role, kept, _mark_repaired(section.about, lost))


def _is_whole(reader: ShardReader, number: int, *bad: Mapping[int, str]) -> bool:
    """Say whether a block is whole, of which only the name is in doubt."""
    entry = reader.entries[number]
    return bool(entry.disk_size and entry.checksum) and not any(number in found for found in bad)


def _index_problems(reader: ShardReader) -> list[FormatError]:
    return [problem for problem in reader.problems if not isinstance(problem, OverlapError)]


def _culprit(problem: str) -> str:
    """Return the block or index entry that a message is about: what stands before its first colon."""
    return problem.partition(":")[0].removeprefix("block ").strip("'")


def _find_mixed(reader: ShardReader, whole: Sequence[int]) -> dict[int, str]:
    """Return the blocks whose right checksums prove nothing: others claim the same bytes, or may have before damage.

    A stream writer that interleaves its flushes leaves right checksums over mixed rows. That its blocks, damaged ones
    and those that were cut off included, follow each other without a gap shows that there was one flush only.
    """
    stated = [*reader.entries, *reader.outside]
    if _is_streamed(reader) and not _consecutive(stated):
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


def _is_streamed(reader: ShardReader) -> bool:
    """Return True unless the file says that no stream writer made it."""
    if reader.header.role != ROLE_WSHARD:
        return False
    try:
        return read_description({META_WSHARD: reader.block(META_WSHARD)}, reader.where).streaming
    except (FormatError, KeyError):
        return True


@dataclass(frozen=True)
class _Section:
    """The JSON section as far as it can be read, what is wrong with its place, and whether it is lost."""

    about: ShardMetadata | None
    note: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)


def _section(reader: ShardReader) -> _Section:
    try:
        return _Section(reader.read_metadata())
    except FormatError as error:
        why = _reason(reader, error)
    with contextlib.suppress(FormatError):  # its place in the header is damaged, perhaps
        about = ShardMetadata.from_json(bytes(reader.behind_blocks()))
        return _Section(about, (f"{why}; it is found again behind the last block",))
    if not reader.header.flags & FLAG_HAS_SCHEMA:
        return _Section(None, (f"{why}; there is none",))
    return _Section(None, (why,), {"JSON section": why})


def _size_notes(reader: ShardReader) -> tuple[str, ...]:
    expected, found = reader.header.total_file_size, reader.size
    return () if expected == found else (f"the file should have {expected} bytes and has {found}",)


def _role(reader: ShardReader, kept: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
    """Return the role of the repaired file: what nothing tells the lanes of is no episode any more."""
    if reader.header.role != ROLE_WSHARD or META_CHANNELS in kept:
        return reader.header.role, ()
    why = f"{META_CHANNELS} is not left, and nothing else tells what the lanes are"
    return ROLE_UNKNOWN, (f"{why}: the blocks are kept in a plain container, role {ROLE_UNKNOWN}",)


def has_no_checksum(reader: ShardReader, number: int) -> bool:
    """Say whether no checksum covers the bytes of a block."""
    entry = reader.entries[number]
    return bool(entry.disk_size and not entry.checksum and not reader.header.flags & FLAG_HAS_CHECKSUMS)


def _mark_repaired(about: ShardMetadata | None, lost: Mapping[str, str]) -> ShardMetadata | None:
    if not lost:
        return about
    about = about or ShardMetadata()
    return replace(about, extra={**about.extra, "repaired": {"lost": dict(lost)}})


def _write(reader: ShardReader, role: int, kept: Mapping[str, int], about: ShardMetadata | None, target: Path) -> None:
    header = reader.header
    alignment = header.alignment if header.alignment in ALIGNMENTS else DEFAULT_ALIGNMENT
    words = about.tag_dictionary if about else []
    with ShardStreamWriter(target, role, len(kept), alignment=alignment) as writer:
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
