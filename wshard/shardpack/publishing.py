"""Give all files of a range their names as one change, which the next writer finishes if a process is killed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from wshard.container.atomic_write import lock_descriptor, sync_folder
from wshard.errors import RecordingExistsError
from wshard.shardpack.layout import PARTIAL

if TYPE_CHECKING:
    from pathlib import Path

    from wshard.shardpack.shards import ShardNames


def write_note(names: ShardNames, count: int) -> None:
    """Note that the new files of a range are complete: readers take them from now on; raises OSError."""
    try:
        with names.note.open("wb") as file:
            file.write(json.dumps({"shard_count": count}).encode())
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        names.note.unlink(missing_ok=True)
        raise
    sync_folder(names.note.parent)


def name_files(names: ShardNames, count: int) -> None:
    """Give complete files their names, remove older ones that the range has no more, then the note; raises OSError.

    The first file is the last one to get its name: its writer's lock is that of the range.
    """
    finals = [names.path(number) for number in range(count)]
    for path in set(names.existing()).difference(finals):
        path.unlink(missing_ok=True)
    for final in reversed(finals):
        partial = _partial(final)
        if partial.exists():
            partial.replace(final)
    sync_folder(finals[0].parent)
    if names.first is not None:
        names.note.unlink(missing_ok=True)


def finish_interrupted(names: ShardNames) -> None:
    """Name the complete files of a killed writer; raises RecordingExistsError while one is active, OSError."""
    if names.first is None or not names.note.exists():
        return
    with names.note.open("rb") as note:
        if lock_descriptor(note.fileno()) is False or _is_locked(_partial(names.path(0))):
            raise RecordingExistsError(f"{names}: another writer is active")
        count = names.read_note()
        if count is not None:
            name_files(replace(names, last=None), count)
        names.note.unlink(missing_ok=True)


def _partial(final: Path) -> Path:
    return final.with_name(final.name + PARTIAL)


def _is_locked(path: Path) -> bool:
    """Return True if a process writes this file."""
    try:
        with path.open("rb") as file:
            return lock_descriptor(file.fileno()) is False
    except FileNotFoundError:
        return False
