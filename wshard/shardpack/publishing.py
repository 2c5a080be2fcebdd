"""Give all files of a range their names as one change, which the next writer finishes if a process is killed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from wshard.container.atomic_write import lock_descriptor, name_place, sync_folder
from wshard.errors import RecordingExistsError
from wshard.shardpack.shards import partial_path

if TYPE_CHECKING:
    from pathlib import Path

    from wshard.shardpack.shards import ShardNames


def write_note(names: ShardNames, count: int) -> None:
    """Note that the new files of a range are complete: readers take them from now on; raises OSError.

    It is written in place: one that was cut short means nothing, and a kill leaves no temporary file beside it.
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
    """Give complete files their names, remove older ones that the range has no more, then the note; raises OSError.

    The first file is the last one to get its name: its writer's lock is that of the range. again: some have theirs.
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
    """Name the complete files of a killed writer; raises RecordingExistsError while one is active, OSError."""
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
    """Return True if a process writes this file."""
    try:
        with path.open("rb") as file:
            return lock_descriptor(file.fileno()) is False
    except FileNotFoundError:
        return False
