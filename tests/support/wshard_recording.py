"""A small recording for tests: two channels whose values follow from the timestep."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from wshard import ChannelDef, DType, WShardStreamWriter

if TYPE_CHECKING:
    from pathlib import Path

STATE = ChannelDef("state", DType.FLOAT32, [2])
CTRL = ChannelDef("ctrl", DType.INT8, [])


def writer(path: Path, **options: object) -> WShardStreamWriter:
    return WShardStreamWriter(path, "e", [STATE], action_defs=[CTRL], **options)


def write(recording: WShardStreamWriter, t: int, **changes: object) -> None:
    values = {"observations": {"state": [t, 2 * t]}, "actions": {"ctrl": t % 100}, "reward": t / 2, "done": False}
    recording.write_timestep(t, **(values | changes))


def record(path: Path, steps: int, **options: object) -> None:
    with writer(path, **options) as recording:
        recording.begin_episode()
        for t in range(steps):
            write(recording, t)


def interrupted(path: Path, steps: int, flush_interval: int = 4) -> Path:
    """Leave the journal of a recording that was killed after `steps` steps at `path`.partial."""
    recording = writer(path.with_name("victim.wshard"), flush_interval=flush_interval)
    recording.begin_episode()
    for t in range(steps):
        write(recording, t)
    partial = path.with_name(path.name + ".partial")
    shutil.copy(recording.partial, partial)
    recording.abort()
    return partial
