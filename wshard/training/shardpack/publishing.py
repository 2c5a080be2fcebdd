"""Rename all files of a range as one change, which the next writer completes if the process is killed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from wshard.core.container.atomic_write import lock_descriptor, name_place, sync_folder
from wshard.errors import RecordingExistsError
from wshard.training.shardpack.shards import partial_path

if TYPE_CHECKING:
    from pathlib import Path

    from wshard.training.shardpack.shards import ShardNames


def write_note(names: ShardNames, count: int) -> None:
    """Write the note that the new files of a range are complete: readers use them from now on; raises OSError.

    It is written in place: a truncated note is ignored, and a killed process leaves no temporary file.
    """
    try:
        with names.note.open("wb") as file:
            file.write(json.dumps({"shard_count": count}).encode())
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        names.note.unlink(missing_ok=True)
        name_place(error, names)
        raise
    sync_folder(names.note.parent)


def name_files(names: ShardNames, count: int, *, again: bool = False) -> None:
    """Rename complete files, remove older files that the range no longer has, then the note; raises OSError.

    The first file is renamed last: its lock is that of the range. again: some are renamed already.
    """
    finals = [names.path(number) for number in range(count)]
    for path in set(names.existing()).difference(finals):
        path.unlink(missing_ok=True)
    for final in reversed(finals):
        if not again or partial_path(final).exists():
            partial_path(final).replace(final)
    sync_folder(finals[0].parent)
    if names.first is not None:
        names.note.unlink(missing_ok=True)


def finish_interrupted(names: ShardNames) -> None:
    """Rename the complete files of a killed writer; raises RecordingExistsError while one is active, OSError."""
    if names.first is None:
        return
    try:
        note = names.note.open("rb")
    except FileNotFoundError:
        return
    with note:
        if lock_descriptor(note.fileno()) is False or _is_locked(partial_path(names.path(0))):
            raise RecordingExistsError(f"{names}: another writer is active")
        count = names.read_note()
        if count is not None:
            name_files(replace(names, last=None), count, again=True)
        names.note.unlink(missing_ok=True)


def _is_locked(path: Path) -> bool:
    """Return True if a process is writing this file."""
    try:
        with path.open("rb") as file:
            return lock_descriptor(file.fileno()) is False
    except FileNotFoundError:
        return False
