"""Repair files: restore interleaved recordings exactly, and save every provably intact block of damaged ones.

Values are never guessed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wshard.core.container.atomic_write import sync_folder
from wshard.core.container.codec_plan import CodecPlan
from wshard.core.container.layout import (
    ROLE_WSHARD,
)
from wshard.core.container.reader import ShardReader
from wshard.core.episode.file import EpisodeFile
from wshard.core.episode.lanes import TICKS, declaration_of
from wshard.core.episode.meta_reader import META_BLOCKS, Description
from wshard.core.episode.store import store
from wshard.core.repair.damaged_index import restore_index
from wshard.core.repair.interleaved import deinterleave
from wshard.core.repair.report import Damage, RepairReport
from wshard.core.repair.salvage import read_section, salvage, shorten
from wshard.errors import FormatError, OverlapError, RecordingExistsError, RepairError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wshard.core.container.layout import Buffer


def repair_file(
    path: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, *, in_place: bool = False
) -> RepairReport:
    """Repair a file into `output` (default: NAME.repaired.SUFFIX beside it) and report what could not be recovered.

    in_place: replace the damaged file, which is kept as FILE.bak. Nothing else is overwritten. An intact file is not
    changed. Raises RepairError if nothing can be restored reliably, HeaderError and IndexCorruptError if the front of
    the file is destroyed, RecordingExistsError, OSError.

    Examples:
        >>> repair_file("episodes/circle-02.wshard").complete  # nothing was damaged, nothing is written
        True
    """
    source = Path(path)
    target = source.with_name(f"{source.stem}.repaired{source.suffix}") if output is None else Path(output)
    backup = source.with_name(f"{source.name}.bak")
    with ShardReader(source, damaged=True) as reader:
        report, write = examine(reader)
        if write is None:
            return report
        blocker = backup if in_place else target
        if blocker.exists():
            raise RecordingExistsError(f"{blocker} exists already: move it away, or name another file")
        publish_repaired(source if in_place else target, backup if in_place else None, write, _check_repaired)
    return replace(report, output=str(source if in_place else target), backup=str(backup) if in_place else None)


def publish_repaired(
    path: Path, backup: Path | None, write: Callable[[Path], None], check: Callable[[Path, Path], None]
) -> None:
    """Write the repaired file, check it, and rename it to `path`.

    backup: a path for the damaged file, created before it is replaced. check(temporary, path) raises if unreadable.
    """
    final = Path(os.path.realpath(path))
    temporary = final.with_name(f".{final.name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        write(temporary)
        check(temporary, path)
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
    """Raise RepairError unless everything in the written file can be read."""
    try:
        with ShardReader(temporary) as reader:
            if problem := next((error for _, error in reader.verify() if error), None):
                raise problem
            if reader.header.role == ROLE_WSHARD:
                episode = EpisodeFile(reader)
                for name in episode.lanes():
                    episode.lane(name)
    except FormatError as error:
        reason = str(error).removeprefix(f"{temporary}: ")
        raise RepairError(f"{path}: the intact parts do not form a readable file: {reason}") from error


def examine(reader: ShardReader) -> tuple[RepairReport, Callable[[Path], None] | None]:
    """Return the damage of a file, and a function that writes the repaired file, None if it is intact.

    Also restores the names of the reader's entries. Raises RepairError if nothing can be restored.
    """
    notes, doubts = restore_index(reader)
    errors = _find_unreadable(reader)
    section = read_section(reader)
    overlaps = any(isinstance(problem, OverlapError) for problem in reader.problems)
    is_truncated = reader.header.total_file_size != reader.size
    if not (errors or doubts or notes or reader.problems or is_truncated or section.notes):
        return RepairReport(reader.where, Damage.INTACT, recovered=tuple(reader.names())), None
    is_interleaved = overlaps and not (errors or doubts) and reader.header.role == ROLE_WSHARD
    report, write = _restore(reader) if is_interleaved else salvage(reader, errors, doubts, section)
    return replace(report, notes=(*notes, *report.notes)), write


def _find_unreadable(reader: ShardReader) -> dict[int, str]:
    errors = {}
    for number in range(len(reader)):
        try:
            reader.block(number)
        except FormatError as error:
            errors[number] = shorten(reader, error)
    return errors


# ---- interleaved recordings ----------------------------------------------------------------------------------------


def _restore(reader: ShardReader) -> tuple[RepairReport, Callable[[Path], None]]:
    restored = deinterleave(reader)
    description, lanes = restored.description, restored.lanes
    sizes = {name: sum(len(piece) for piece in pieces) for name, pieces in lanes.items()}
    all_declared = {name: declaration_of(name, size, description) for name, size in sizes.items()}
    declared = {name: lane for name, lane in all_declared.items() if lane and name.startswith(("signal/", "action/"))}
    description = replace(description, declared=declared)
    ticks, length = b"".join(lanes.get(TICKS, ())), description.length or 0
    counts_up = np.array_equal(np.frombuffer(ticks, "<i4"), np.arange(length))
    notes = [] if counts_up else [f"{TICKS} does not count 0, 1, 2, ...: it has the values of the recording program"]
    if restored.unchecked_from is not None:
        notes.append(f"no checksum covers the rows from timestep {restored.unchecked_from} on: that writer left none")
    report = RepairReport(
        reader.where, Damage.INTERLEAVED, recovered=tuple(sorted((*lanes, *META_BLOCKS))), notes=tuple(notes)
    )
    return report, partial(_save, description, lanes)


def _save(description: Description, lanes: Mapping[str, Sequence[Buffer]], target: Path) -> None:
    store(target, description, lanes, CodecPlan.of("none"))
