"""The journal of a recording in progress: `<path>.partial`, a file that describes itself and survives a kill.

Its records, their order and its lock: FORMAT.md, J-1 and following.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from wshard.core.array_fields import DType
from wshard.core.container.atomic_write import sync_folder
from wshard.core.container.layout import (
    JOURNAL_CHECKSUM,
    JOURNAL_DESCRIPTION,
    JOURNAL_HEAD,
    JOURNAL_LANES,
    JOURNAL_MAGIC,
    JOURNAL_ROWS,
    checksum,
)
from wshard.core.episode.lanes import DONE, REWARD, TICKS, TRUNCATIONS
from wshard.core.episode.meta_reader import META_BLOCKS, Description, read_description
from wshard.core.episode.meta_writer import write_description
from wshard.core.files.regular import map_file, needs_local_disk
from wshard.core.recording.flushed_rows import FlushedFrames, FlushedRows
from wshard.core.recording.recorded_lane import RecordedLane
from wshard.errors import FormatError, RecordingExistsError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from wshard.core.container.layout import Buffer

STEP_LANES: Final = (
    RecordedLane(REWARD, DType.FLOAT32),
    RecordedLane(DONE, DType.BOOL),
    RecordedLane(TICKS, DType.INT32),
    RecordedLane(TRUNCATIONS, DType.BOOL),
)


# ---- writing -------------------------------------------------------------------------------------------------------


def create(partial: Path, description: Description, *, overwrite: bool) -> IO[bytes]:
    """Create and lock the journal, with the episode's description in it.

    Raises RecordingExistsError if it exists and is not empty (unless overwrite) or another writer has the lock,
    EpisodeError for a description that cannot be written: then no file is left behind.
    """
    records = write_description(description)
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    file = os.fdopen(descriptor, "r+b", buffering=1 << 16)
    try:
        lock(file, partial)
        _check_unused(descriptor, partial, overwrite=overwrite)
    except BaseException:
        file.close()
        raise
    try:
        _write_description(file, records)
        sync_folder(partial.parent)  # else a power failure could lose the file's name
    except BaseException:
        partial.unlink()
        with contextlib.suppress(OSError):  # the disk is full, which the error being raised says already
            file.close()
        raise
    return file


def _write_description(file: IO[bytes], records: Mapping[str, bytes]) -> None:
    file.truncate(0)
    file.write(JOURNAL_MAGIC)
    for name in META_BLOCKS:
        append(file, JOURNAL_DESCRIPTION, (records[name],))
    file.flush()


def _check_unused(descriptor: int, partial: Path, *, overwrite: bool) -> None:
    status = os.fstat(descriptor)
    if status.st_size and not overwrite:
        raise RecordingExistsError(
            f"{partial} holds an interrupted recording: save it with recover({str(partial)!r}), "
            f"or discard it with overwrite=True"
        )
    if not partial.exists() or not os.path.samestat(status, partial.stat()):
        raise RecordingExistsError(f"{partial}: another writer was just ending its recording: try again")


def lock(file: IO[bytes], partial: Path) -> None:
    """Take the journal's lock until `file` is closed; raises RecordingExistsError while another process holds it."""
    if sys.platform != "win32":
        try:
            with needs_local_disk("locks", partial):
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordingExistsError(f"{partial}: another writer is recording to this path") from None


def append(file: IO[bytes], kind: bytes, pieces: Sequence[Buffer], steps: int = 0) -> None:
    """Append one record; the pieces are stored one after the other."""
    head = JOURNAL_HEAD.pack(kind, steps, sum(len(piece) for piece in pieces))
    crc = checksum(head)
    for piece in pieces:
        crc = checksum(piece, crc)
    file.write(head + JOURNAL_CHECKSUM.pack(crc))
    for piece in pieces:
        file.write(piece)


def append_lanes(file: IO[bytes], lanes: Sequence[RecordedLane]) -> None:
    """Append the record with the lanes of the following rows, in order."""
    append(file, JOURNAL_LANES, (json.dumps([lane.to_json() for lane in lanes]).encode(),))


# ---- reading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Journal:
    """The intact part of a journal: rows of each lane, and frames of those with a codec, as views of the file."""

    description: Description
    pieces: Mapping[str, Sequence[Buffer]]
    frames: Mapping[str, FlushedFrames] = field(default_factory=dict)


def read(file: IO[bytes], where: str) -> Journal:
    """Read the journal up to its first torn or damaged record; raises FormatError if that is in its description."""
    size = os.fstat(file.fileno()).st_size
    if size < len(JOURNAL_MAGIC):
        raise FormatError(f"{where}: the recording ended before its description was written: nothing to recover")
    data = map_file(file.fileno(), where)
    magic = bytes(data[: len(JOURNAL_MAGIC)])
    if magic != JOURNAL_MAGIC:
        raise FormatError(f"{where}: expected a recording journal ({JOURNAL_MAGIC!r}), found {magic!r}")
    records = _intact_records(data)
    payloads = [record.payload for record in islice(records, len(META_BLOCKS)) if record.kind == JOURNAL_DESCRIPTION]
    if len(payloads) < len(META_BLOCKS):
        raise FormatError(f"{where}: the recording ended inside its description: nothing to recover")
    description = read_description(dict(zip(META_BLOCKS, payloads, strict=True)), where)
    lane_record = next(records, None)
    if lane_record is None:
        return Journal(replace(description, length=0), {})
    lanes = _lanes(lane_record, description, where)
    flushes = FlushedRows(data, lanes)
    for kind, steps, start, payload in records:
        if kind != JOURNAL_ROWS:
            raise FormatError(f"{where}: expected {JOURNAL_ROWS!r}, found {kind!r} of {len(payload)} bytes")
        flushes.add(start, steps, len(payload), where)
    if not (length := sum(flushes.steps)):
        flushes = FlushedRows(data, lanes := [lane.without_codec() for lane in lanes])
    declared = {lane.block: lane for lane in lanes if lane.block in description.declared}
    return Journal(replace(description, declared=declared, length=length), flushes.lanes(), flushes.frames())


class _Record(NamedTuple):
    kind: bytes
    steps: int
    start: int
    payload: memoryview


def _intact_records(data: memoryview) -> Iterator[_Record]:
    """Yield all complete records; a torn or damaged one ends the journal, since nothing after it can be trusted."""
    position = len(JOURNAL_MAGIC)
    head_size = JOURNAL_HEAD.size + JOURNAL_CHECKSUM.size
    while position + head_size <= len(data):
        head = data[position : position + JOURNAL_HEAD.size]
        kind, steps, size = JOURNAL_HEAD.unpack(head)
        (crc,) = JOURNAL_CHECKSUM.unpack_from(data, position + JOURNAL_HEAD.size)
        payload = data[position + head_size : position + head_size + size]
        if len(payload) < size or checksum(payload, checksum(head)) != crc:
            return
        yield _Record(kind, steps, position + head_size, payload)
        position += head_size + size


def _lanes(record: _Record, description: Description, where: str) -> list[RecordedLane]:
    declared = {**description.declared, **{lane.block: lane for lane in STEP_LANES}}
    try:
        entries = json.loads(bytes(record.payload)) if record.kind == JOURNAL_LANES else None
    except (ValueError, RecursionError):
        entries = None
    entries = entries if isinstance(entries, list) else []
    step_lanes = [lane.block for lane in STEP_LANES if lane.block != REWARD or REWARD in entries]
    if entries[-len(step_lanes) :] != step_lanes:
        raise FormatError(f"{where}: expected the list of recorded lanes after the description, found {record.kind!r}")
    lanes = [RecordedLane.read(entry, declared, where) for entry in entries]
    if len({lane.block for lane in lanes}) != len(lanes):
        raise FormatError(f"{where}: expected each lane once, found {', '.join(lane.block for lane in lanes)}")
    return lanes
