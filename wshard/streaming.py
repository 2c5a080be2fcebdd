"""Record an episode step by step, for hours, with constant memory; recover what a crash left behind.

Knows: the journal `<path>.partial`, which describes itself and grows by one checked record per flush, and how it
becomes an episode file equal to a batch save of the same data.
Does not know: how blocks are laid out in the final file (episode_file.py).
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

import numpy as np

from wshard.compress import CodecPlan, Compression, CompressionLevel, CompressionType
from wshard.container import sync_folder
from wshard.episode_file import as_bytes, store
from wshard.errors import EpisodeError, FormatError, LaneError, RecordingExistsError, RecordingStateError
from wshard.lanes import (
    DONE,
    META_BLOCKS,
    REWARD,
    TICKS,
    TRUNCATIONS,
    Declaration,
    Description,
    read_description,
    write_description,
)
from wshard.layout import JOURNAL_DESCRIPTION, JOURNAL_LANES, JOURNAL_MAGIC, JOURNAL_RECORD, JOURNAL_ROWS, checksum
from wshard.types import Array, DType, Modality, TimebaseSpec

try:
    import fcntl
except ImportError:  # Windows: exclusive creation below still refuses a second writer
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from wshard.layout import Buffer

DEFAULT_FLUSH_INTERVAL: Final = 64
_STEP_LANES: Final = (
    Declaration(REWARD, DType.FLOAT32),
    Declaration(DONE, DType.BOOL),
    Declaration(TICKS, DType.INT32),
    Declaration(TRUNCATIONS, DType.BOOL),
)


@dataclass(frozen=True)
class ChannelDef:
    """A channel to record: dtype and per-timestep shape ([] for a scalar)."""

    name: str
    dtype: DType
    shape: Sequence[int] = field(default_factory=tuple)
    modality: Modality | None = None

    @property
    def element_size(self) -> int:
        """Bytes per timestep."""
        return DType(self.dtype).size * math.prod(self.shape)

    def declare(self, prefix: str) -> Declaration:
        """Return the lane's declaration under "signal" or "action"."""
        return Declaration(f"{prefix}/{self.name}", DType(self.dtype), tuple(self.shape), self.modality)


class WShardStreamWriter:
    """Write an episode while it happens.

    path: the final file. `<path>.partial` exists from begin_episode until end_episode renames the finished episode
    into place; after a crash it holds every flushed timestep (see recover). channel_defs: the observations and, unless
    action_defs is given, the actions too. flush_interval: timesteps between flushes. fsync: make each flush durable.

    Raises RecordingExistsError where another writer is at work or an interrupted recording lies in the way
    (overwrite=True discards the latter), RecordingStateError for calls out of order, EpisodeError for wrong values.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        episode_id: str,
        channel_defs: Sequence[ChannelDef],
        max_timesteps: int | None = None,
        compression: Compression = CompressionType.NONE,
        compression_level: int = CompressionLevel.DEFAULT,
        flush_interval: int = DEFAULT_FLUSH_INTERVAL,
        *,
        action_defs: Sequence[ChannelDef] | None = None,
        fsync: bool = False,
        overwrite: bool = False,
    ) -> None:
        if flush_interval < 1:
            raise ValueError(f"flush_interval: expected at least 1 timestep, found {flush_interval}")
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self._episode_id = episode_id
        self._observations = {channel.name: channel.declare("signal") for channel in channel_defs}
        actions = channel_defs if action_defs is None else action_defs
        self._actions = {channel.name: channel.declare("action") for channel in actions}
        self._max_timesteps = max_timesteps
        self._plan = CodecPlan.of(compression, compression_level)
        self._capacity = flush_interval
        self._fsync = fsync
        self._overwrite = overwrite
        self._file: IO[bytes] | None = None
        self._about = Description(episode_id)
        self._buffers: dict[str, Array] = {}
        self._waiting = 0
        self._steps = 0
        self._finalized = False

    @property
    def timestep_count(self) -> int:
        """Timesteps written so far, flushed or not."""
        return self._steps

    @property
    def is_finalized(self) -> bool:
        """True once the episode file is in place."""
        return self._finalized

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if self._file is None:
            return
        if kind is None:
            self.end_episode()
        else:
            self.abort()

    def begin_episode(
        self, env_id: str = "", timebase: TimebaseSpec | None = None, *, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Create the .partial file and take its lock."""
        if self._file is not None or self._finalized:
            raise RecordingStateError("begin_episode: the episode has begun already; use one writer per episode")
        self._about = Description(
            self._episode_id,
            env_id,
            timebase=timebase or TimebaseSpec(),
            metadata=dict(metadata or {}),
            declared={lane.block: lane for lane in (*self._observations.values(), *self._actions.values())},
        )
        records = write_description(self._about)  # before the file exists: bad metadata must leave nothing behind
        self._file = _create_journal(self.partial, overwrite=self._overwrite)
        self._file.write(JOURNAL_MAGIC)
        for name in META_BLOCKS:
            self._record(JOURNAL_DESCRIPTION, 0, (records[name],))
        self._file.flush()

    def write_timestep(  # noqa: PLR0913  (the signature of the format's reference package, plus truncated)
        self,
        t: int,
        observations: Mapping[str, Any],
        actions: Mapping[str, Any],
        reward: float,
        done: bool,  # noqa: FBT001  (as above)
        *,
        truncated: bool = False,
    ) -> None:
        """Append one timestep; every timestep must bring the same channels as the first.

        Values are arrays of the declared shape. Raises EpisodeError for an unknown or missing channel, a wrong shape
        or a value that the dtype cannot hold; a refused timestep leaves no trace.
        """
        if self._file is None:
            raise RecordingStateError("write_timestep: call begin_episode first")
        if self._max_timesteps is not None and self._steps >= self._max_timesteps:
            raise RecordingStateError(f"write_timestep: max_timesteps of {self._max_timesteps} is reached")
        rows = self._checked(observations, self._observations, "observation")
        rows += self._checked(actions, self._actions, "action")
        if not self._buffers:
            self._start_lanes([lane for lane, _ in rows])
        elif len(rows) + len(_STEP_LANES) != len(self._buffers):
            raise EpisodeError(f"timestep {t}: expected the channels of the first timestep: {', '.join(self._buffers)}")
        row = self._waiting
        for lane, value in rows:
            if lane.block not in self._buffers:
                raise EpisodeError(f"timestep {t}: channel {lane.block!r} was absent in the first timestep")
            self._buffers[lane.block][row] = value
        self._buffers[REWARD][row] = reward
        self._buffers[DONE][row] = done
        self._buffers[TICKS][row] = t
        self._buffers[TRUNCATIONS][row] = truncated
        self._waiting += 1
        self._steps += 1
        if self._waiting == self._capacity:
            self.flush()

    def _checked(
        self, given: Mapping[str, Any], known: Mapping[str, Declaration], kind: str
    ) -> list[tuple[Declaration, Array]]:
        rows = []
        for name, value in given.items():
            lane = known.get(name)
            if lane is None:
                raise EpisodeError(f"unknown {kind} channel {name!r}; expected one of {', '.join(known) or 'none'}")
            array = np.asarray(value)
            if array.shape != lane.shape:
                raise EpisodeError(
                    f"{kind} {name!r}: Shape mismatch: expected {list(lane.shape)}, found {list(array.shape)}"
                )
            target = lane.dtype.numpy_dtype
            if array.dtype != target and not _holds(array, target):
                raise EpisodeError(f"{kind} {name!r}: {lane.dtype.value} cannot hold {array.dtype} {array.ravel()[:4]}")
            rows.append((lane, array))
        return rows

    def _start_lanes(self, lanes: Sequence[Declaration]) -> None:
        chosen = (*lanes, *_STEP_LANES)
        self._buffers = {lane.block: np.zeros((self._capacity, *lane.shape), lane.dtype.numpy_dtype) for lane in chosen}
        present = {lane.block for lane in lanes}
        self._about = replace(
            self._about, declared={name: lane for name, lane in self._about.declared.items() if name in present}
        )
        self._record(JOURNAL_LANES, 0, (json.dumps([lane.block for lane in chosen]).encode(),))

    def flush(self) -> None:
        """Append the waiting timesteps to the .partial file."""
        if self._file is None or not self._waiting:
            return
        rows = [piece for buffer in self._buffers.values() for piece in as_bytes(buffer[: self._waiting])]
        self._record(JOURNAL_ROWS, self._waiting, rows)
        self._file.flush()
        if self._fsync:
            os.fsync(self._file.fileno())
        self._waiting = 0

    def _record(self, kind: bytes, steps: int, pieces: Sequence[Buffer]) -> None:
        if self._file is None:
            raise RecordingStateError("the recording is closed")
        crc = 0
        for piece in pieces:
            crc = checksum(piece, crc)
        self._file.write(JOURNAL_RECORD.pack(kind, steps, sum(len(piece) for piece in pieces), crc))
        for piece in pieces:
            self._file.write(piece)

    def end_episode(self, *, metadata: Mapping[str, Any] | None = None) -> int:
        """Publish the episode file and remove the .partial; returns the file's size in bytes.

        metadata: merged over that of begin_episode, for what is known at the end only (success, ...).
        """
        if self._file is None:
            raise RecordingStateError("end_episode: call begin_episode first")
        self.flush()
        merged = {**self._about.metadata, **(metadata or {})}
        about = replace(self._about, length=self._steps, metadata=merged)
        size = _finalise(self._file, self.path, about, self._plan)
        self._close(remove=True)
        self._finalized = True
        return size

    def abort(self) -> None:
        """Throw the recording away."""
        self._close(remove=True)

    def _close(self, *, remove: bool) -> None:
        if self._file is not None:
            if remove:
                self.partial.unlink(missing_ok=True)  # before the lock goes, so that no other writer's file is meant
            self._file.close()
            self._file = None


def _holds(array: Array, target: np.dtype[Any]) -> bool:
    """Return True where converting keeps the value: same kind of number, or integers that are in range."""
    if array.dtype.kind in "iub" and target.kind in "iu":
        limits = np.iinfo(target)
        return bool(array.size == 0 or (int(array.min()) >= limits.min and int(array.max()) <= limits.max))
    return array.dtype.kind in "fiub" and (target.kind == "f" or target.name == "bfloat16" or array.dtype == target)


def _create_journal(partial: Path, *, overwrite: bool) -> IO[bytes]:
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        _lock(descriptor, partial)
        if os.fstat(descriptor).st_size and not overwrite:
            raise RecordingExistsError(
                f"{partial} holds an interrupted recording: save it with recover({str(partial)!r}), "
                f"or discard it with overwrite=True"
            )
        os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "r+b", buffering=1 << 16)


def _lock(descriptor: int, partial: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RecordingExistsError(f"{partial}: another writer is recording to this path") from None


def recover(partial: str | os.PathLike[str], *, compression: Compression = CompressionType.NONE) -> Path:
    """Turn the .partial of a killed recording into an episode of all flushed timesteps; returns the episode's path.

    The episode's metadata say {"recovered": true}; the .partial is removed once the episode is in place.
    Raises FileNotFoundError, RecordingExistsError while its writer lives, FormatError if nothing can be recovered.
    """
    source = Path(partial)
    target = source.with_name(source.name.removesuffix(".partial"))
    if target == source:
        raise LaneError(f"{source}: expected a name that ends in .partial")
    with source.open("r+b") as file:
        _lock(file.fileno(), source)
        if target.exists():
            raise RecordingExistsError(f"{target} exists already: move it away to recover {source.name}")
        about = _journal(file.fileno(), str(source)).about
        marked = replace(about, metadata={**about.metadata, "recovered": True})
        _finalise(file, target, marked, CodecPlan.of(compression))
        source.unlink()
    return target


@dataclass(frozen=True)
class _Journal:
    """The readable part of a .partial file."""

    about: Description
    pieces: Mapping[str, Sequence[Buffer]]  # rows of each lane, flush by flush, as views of the file


def _finalise(file: IO[bytes], target: Path, about: Description, plan: CodecPlan) -> int:
    """Write the journal's lanes as an episode described by `about`; its rows are read through a memory map."""
    file.flush()
    journal = _journal(file.fileno(), str(target))
    if about.length != journal.about.length:
        raise FormatError(f"{target}: {about.length} timesteps were recorded, {journal.about.length} are on disk")
    pieces = dict(journal.pieces)
    if not pieces:
        pieces = {lane.block: () for lane in (*about.declared.values(), *_STEP_LANES)}
    if not any(np.frombuffer(piece, np.uint8).any() for piece in pieces[TRUNCATIONS]):
        del pieces[TRUNCATIONS]  # as in a batch save, where "no truncations recorded" is the absence of the lane
    return store(target, about, pieces, plan)


def _journal(descriptor: int, where: str) -> _Journal:
    size = os.fstat(descriptor).st_size
    if size < len(JOURNAL_MAGIC):
        raise FormatError(f"{where}: the recording ended before its description was written: nothing to recover")
    data = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    if data[: len(JOURNAL_MAGIC)] != JOURNAL_MAGIC:
        raise FormatError(f"{where}: expected a recording journal ({JOURNAL_MAGIC!r}), found {bytes(data[:4])!r}")
    meta: list[Buffer] = []
    lanes: list[str] = []
    rows: list[tuple[int, memoryview]] = []
    for kind, steps, payload in _records(data):
        if kind == JOURNAL_DESCRIPTION:
            meta.append(payload)
        elif kind == JOURNAL_LANES:
            lanes = json.loads(bytes(payload))
        elif kind == JOURNAL_ROWS:
            rows.append((steps, payload))
    if len(meta) < len(META_BLOCKS):
        raise FormatError(f"{where}: the recording ended inside its description: nothing to recover")
    about = read_description(dict(zip(META_BLOCKS, meta, strict=False)), where)
    known = {**about.declared, **{lane.block: lane for lane in _STEP_LANES}}
    declared = {name: lane for name, lane in about.declared.items() if not lanes or name in lanes}
    about = replace(about, declared=declared, length=sum(steps for steps, _ in rows))
    return _Journal(about, _split(rows, [known[name] for name in lanes]))


def _records(data: memoryview) -> list[tuple[bytes, int, memoryview]]:
    """Return all whole records; a torn or damaged one ends the journal, since nothing after it can be trusted."""
    found, position = [], len(JOURNAL_MAGIC)
    while position + JOURNAL_RECORD.size <= len(data):
        kind, steps, size, crc = JOURNAL_RECORD.unpack_from(data, position)
        start = position + JOURNAL_RECORD.size
        payload = data[start : start + size]
        if len(payload) < size or checksum(payload) != crc:
            break
        found.append((kind, steps, payload))
        position = start + size
    return found


def _split(rows: Sequence[tuple[int, memoryview]], lanes: Sequence[Declaration]) -> dict[str, list[Buffer]]:
    pieces: dict[str, list[Buffer]] = {lane.block: [] for lane in lanes}
    for steps, payload in rows:
        position = 0
        for lane in lanes:
            pieces[lane.block].append(payload[position : position + steps * lane.step_size])
            position += steps * lane.step_size
    return pieces


def discard(partial: str | os.PathLike[str]) -> None:
    """Remove the .partial of a killed recording; raises RecordingExistsError while its writer lives."""
    source = Path(partial)
    with contextlib.suppress(FileNotFoundError), source.open("r+b") as file:
        _lock(file.fileno(), source)
        source.unlink()
        sync_folder(source.parent)
