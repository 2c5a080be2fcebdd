"""Record an episode step by step, for hours, with constant memory."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Self, SupportsFloat, SupportsIndex

from wshard.core.arguments import seconds, timesteps
from wshard.core.container.atomic_write import remove_left_behind
from wshard.core.container.codec import CompressionLevel, CompressionType
from wshard.core.container.layout import JOURNAL_ROWS
from wshard.core.episode.meta_reader import Description
from wshard.core.media.video_stream import GROUP
from wshard.core.recording import journal
from wshard.core.recording.channel_defs import (
    ACTION_IDS,
    ChannelDef,
    check_channels,
    check_step,
    check_values,
    declare,
    plan_of,
    read_definitions,
    warn_without_actions,
)
from wshard.core.recording.journal import STEP_LANES
from wshard.core.recording.pending_rows import PendingRows
from wshard.core.recording.recover import finalise
from wshard.core.types import TimebaseSpec
from wshard.errors import EpisodeError, RecordingStateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from wshard.core.container.codec_plan import Compression, FrameSteps
    from wshard.core.recording.recorded_lane import RecordedLane
    from wshard.core.types import Array

DEFAULT_FLUSH_INTERVAL: Final = 64
_MAX_TIMESTEPS: Final = 100_000


class WShardStreamWriter:
    """Record an episode timestep by timestep.

    `<path>.partial` exists from begin_episode until end_episode renames the finished episode; after a crash it contains
    every flushed timestep (see recover), and all timesteps if an error or Ctrl-C ends the `with`. Raises
    RecordingExistsError if another writer is active or an interrupted recording exists, RecordingStateError for calls
    out of order, EpisodeError for wrong values.

    Args:
        path: The final file.
        episode_id: The name of the episode.
        channel_defs: ChannelDefs, or dicts such as {"id": "state", "dtype": "f32", "shape": [3]} (see ChannelDef.of).
        max_timesteps: Further timesteps are refused; None = no limit.
        compression: As in save_wshard.
        compression_level: As in save_wshard.
        flush_interval: Timesteps between flushes; at most 10 if a channel has a codec.
        channels: Another name for channel_defs.
        action_defs: The actions; without them a channel may be either, unless it specifies which.
        flush_seconds: Seconds after which the next timestep triggers a flush.
        frame_steps: As in save_wshard.
        fsync: Make each flush durable.
        overwrite: Discard an interrupted recording.
        on_error: "discard": an error in the `with` discards the recording.

    Examples:
        >>> with WShardStreamWriter("reach.wshard", "reach", [ChannelDef("ctrl", DType.FLOAT32, [3])]) as writer:
        ...     writer.begin_episode("reach-v3")
        ...     writer.write_timestep({"ctrl": [0.0, 0.1, 0.2]}, reward=1.0)
        >>> writer.is_finalized
        True
    """

    def __init__(  # noqa: PLR0913, PLR0917  (the signature of the format's reference package, and more by keyword)
        self,
        path: str | os.PathLike[str],
        episode_id: str,
        channel_defs: Sequence[ChannelDef | Mapping[str, Any]] | None = None,
        max_timesteps: int | None = _MAX_TIMESTEPS,
        compression: Compression = CompressionType.NONE,
        compression_level: int = CompressionLevel.DEFAULT,
        flush_interval: int = DEFAULT_FLUSH_INTERVAL,
        *,
        channels: Sequence[ChannelDef | Mapping[str, Any]] | None = None,
        action_defs: Sequence[ChannelDef | Mapping[str, Any]] | None = None,
        flush_seconds: float | None = None,
        frame_steps: FrameSteps | None = None,
        fsync: bool = False,
        overwrite: bool = False,
        on_error: Literal["keep", "discard"] = "keep",
    ) -> None:
        if on_error not in ("keep", "discard"):
            raise EpisodeError(f"on_error: expected 'keep' or 'discard', found {on_error!r}")
        self._max_timesteps = None if max_timesteps is None else timesteps(max_timesteps, "max_timesteps", EpisodeError)
        self._capacity = timesteps(flush_interval, "flush_interval", EpisodeError)
        self._flush_seconds = seconds(flush_seconds, "flush_seconds", EpisodeError)
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self._episode_id = episode_id
        if (channel_defs is None) == (channels is None):
            raise EpisodeError("expected channel_defs, or channels by keyword: a sequence of ChannelDefs or dicts")
        defined, actions = read_definitions(channels if channel_defs is None else channel_defs, action_defs)
        self._observations = declare(defined, "signal")
        self._actions = declare(actions, "action")
        lanes = (*self._actions.values(), *self._observations.values())
        self._lanes_by_name = {lane.block: lane for lane in lanes} | {lane.id: lane for lane in lanes}
        self._lanes_by_name |= {name: self._actions[name] for name in ACTION_IDS if name in self._actions}
        self._channels = defined if action_defs is None else [*defined, *actions]
        self._plan = plan_of(self._channels, compression, compression_level, frame_steps)
        self._flushed_at = time.monotonic()
        self._fsync = fsync
        self._overwrite = overwrite
        self._discards = on_error == "discard"
        self._file: IO[bytes] | None = None
        self._description = Description(episode_id)
        self._pending: PendingRows | None = None
        self._steps = 0
        self._finalized = False

    @property
    def timestep_count(self) -> int:
        """Timesteps written so far, flushed or not."""
        return self._steps

    @property
    def is_finalized(self) -> bool:
        """True once the episode file exists."""
        return self._finalized

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._file is None:
            return
        if error is None:
            self.end_episode()
        elif self._steps and not (
            self._discards and isinstance(error, Exception) and self._steps != self._max_timesteps
        ):
            # An error, Ctrl-C or one timestep too many must not discard hours of recording.
            with contextlib.suppress(OSError):  # the disk is full: earlier flushes stay
                self.flush()
            self._close(remove=False)
            error.add_note(self._advice)
        else:
            self.abort()

    @property
    def _advice(self) -> str:
        return f"{self.partial} keeps what was recorded: save it with `wshard recover`, or delete it"

    def begin_episode(
        self, env_id: str = "", timebase: TimebaseSpec | None = None, *, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Create the .partial file and lock it; raises EpisodeError for metadata that JSON cannot represent."""
        if self._file is not None or self._finalized:
            raise RecordingStateError("begin_episode: the episode has begun already; use one writer per episode")
        self._description = Description(
            self._episode_id,
            env_id,
            timebase=timebase or TimebaseSpec(),
            metadata=dict(metadata or {}),
            declared={lane.block: lane for lane in (*self._observations.values(), *self._actions.values())},
        )
        self._file = journal.create(self.partial, self._description, overwrite=self._overwrite)
        remove_left_behind(Path(os.path.realpath(self.path)))
        self._flushed_at = time.monotonic()

    def write_timestep(  # noqa: PLR0913  (as above)
        self,
        t: SupportsIndex | Mapping[str, Any],
        observations: Mapping[str, Any] | None = None,
        actions: Mapping[str, Any] | None = None,
        reward: SupportsFloat | None = None,
        done: bool | np.bool_ = False,  # noqa: FBT001, FBT002  (as the signature)
        *,
        terminated: bool | np.bool_ | None = None,
        truncated: bool | np.bool_ = False,
    ) -> None:
        """Append one timestep, with the same channels as the first one, and with a reward if the first had one.

        Either `write_timestep(t, observations, actions, reward, done)`, where channels missing in the first timestep
        are not recorded, or `write_timestep({"state": ..., "ctrl": ...}, reward=..., done=...)` with all channels by
        name, or by block name ("action/ctrl"). A name of both an observation and an action means the observation,
        except for "action", "actions", "act", "ctrl" and "control"; a FormatWarning names channels that may have been
        meant as actions if there is no action. Timesteps are counted from 0. terminated: alternative name of done, as
        in simulators that also have truncated. Values are arrays of the declared shape. Raises EpisodeError for an
        unknown or missing channel, a wrong shape or a value that the dtype cannot represent; a refused timestep is not
        recorded at all.
        """
        if self._file is None:
            raise RecordingStateError("write_timestep: no recording is open: call begin_episode first")
        if self._steps == self._max_timesteps:
            raise RecordingStateError(f"write_timestep: max_timesteps of {self._max_timesteps} is reached")
        if terminated is not None:
            if done and not terminated:
                raise EpisodeError(f"timestep {self._steps}: expected done or terminated, found both, which differ")
            done = terminated
        if observations is None and actions is None and isinstance(t, Mapping):
            rows = check_values(t, self._lanes_by_name, "")
            expected = () if self._pending else self._channels
            check_channels(f"timestep {self._steps}", expected, {lane.block for lane, _ in rows}, list(t))
            if not self._pending:
                warn_without_actions(str(self.path), self._channels, [lane.block for lane, _ in rows], t)
            t = self._steps
        else:
            rows = check_values(observations or {}, self._observations, "observation ")
            rows += check_values(actions or {}, self._actions, "action ")
        self._append(rows, check_step(t, reward, done, truncated))

    def _append(self, rows: Sequence[tuple[RecordedLane, Array]], step: Sequence[tuple[str, float]]) -> None:
        pending = self._pending or self._begin_lanes(rows, {block for block, _ in step})
        pending.check(rows, step, self._steps)
        if pending.encodes:
            with self._journal():  # frames that cannot be encoded would leave a gap in their video
                pending.encode(rows)
        pending.append(rows, step)
        self._steps += 1
        if pending.count == self._capacity or time.monotonic() - self._flushed_at >= self._flush_seconds:
            self.flush()

    def _begin_lanes(self, rows: Sequence[tuple[RecordedLane, Array]], step_blocks: set[str]) -> PendingRows:
        channels = [lane.begin(value.shape) for lane, value in rows]
        lanes = (*channels, *(lane for lane in STEP_LANES if lane.block in step_blocks))
        if any(lane.codec for lane in channels):
            self._capacity = min(self._capacity, GROUP)
        self._pending = PendingRows(lanes, self._capacity)
        with self._journal() as file:
            journal.append_lanes(file, lanes)
        self._description = replace(self._description, declared={lane.block: lane for lane in channels})
        return self._pending

    @contextlib.contextmanager
    def _journal(self) -> Iterator[IO[bytes]]:
        """Yield the open journal; on an error close it but keep the file for recover()."""
        if self._file is None:
            raise RecordingStateError("no recording is open: call begin_episode first")
        try:
            yield self._file
        except BaseException as error:
            self._close(remove=False)
            if isinstance(error, OSError):
                error.filename = error.filename or str(self.partial)  # the error of a full disk names no file
                error.strerror = f"{error.strerror or error}; {self._advice}"
            raise

    def flush(self) -> None:
        """Append the pending timesteps to the .partial file; raises OSError and ends the recording if that fails."""
        self._flushed_at = time.monotonic()
        if self._pending is None or not self._pending.count:
            return
        count = self._pending.count
        with self._journal() as file:
            journal.append(file, JOURNAL_ROWS, self._pending.take(), count)
            file.flush()
            if self._fsync:
                os.fsync(file.fileno())

    def end_episode(self, *, metadata: Mapping[str, Any] | None = None) -> int:
        """Publish the episode file and remove the .partial; returns the file's size in bytes.

        metadata: merged over that of begin_episode, for what is known only at the end (success, ...). An episode
        without timesteps can be loaded, but save_wshard and archives refuse it. On failure (full disk, metadata that
        JSON cannot represent) the .partial remains for recover().
        """
        with self._journal() as file:
            self.flush()
            merged = {**self._description.metadata, **(metadata or {})}
            description = replace(self._description, length=self._steps, metadata=merged)
            size = finalise(file, self.path, description, self._plan)
        self._close(remove=True)
        self._finalized = True
        return size

    def abort(self) -> None:
        """Discard the recording."""
        self._close(remove=True)

    def _close(self, *, remove: bool) -> None:
        if self._file is not None:
            if self._pending is not None:
                self._pending.close()
            if remove:
                self.partial.unlink(missing_ok=True)  # while locked, so as not to remove another writer's file
            with contextlib.suppress(OSError):  # the disk is full, which the error being raised says already
                self._file.close()
            self._file = None
