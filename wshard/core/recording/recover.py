"""Convert a journal to an episode file: at the end of a recording, and after a crash.

Both give an episode file equal to a batch save.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from wshard.core.container.atomic_write import remove_left_behind, sync_folder
from wshard.core.container.codec import CompressionType
from wshard.core.container.codec_plan import CodecPlan, Compression
from wshard.core.episode.encoded_lane import image_table
from wshard.core.episode.lanes import REWARD, TRUNCATIONS
from wshard.core.episode.store import store
from wshard.core.files.regular import map_file
from wshard.core.media.video_stream import write_mp4
from wshard.core.recording import journal
from wshard.core.recording.journal import STEP_LANES
from wshard.errors import CodecError, FormatError, LaneError, RecordingExistsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.container.codec_plan import FrameSteps
    from wshard.core.container.layout import Buffer
    from wshard.core.episode.meta_reader import Description
    from wshard.core.recording.flushed_rows import FlushedFrames


def finalise(file: IO[bytes], target: Path, description: Description, plan: CodecPlan) -> int:
    """Write the journal's lanes as an episode described by `description`; its rows are read through a memory map.

    Returns the episode file's size in bytes; raises FormatError if the journal has another length than `description`.
    """
    file.flush()
    recorded = journal.read(file, str(target))
    if description.length != recorded.description.length:
        found = recorded.description.length
        raise FormatError(f"{target}: {description.length} timesteps were recorded, {found} are on disk")
    blocks = [lane.block for lane in (*description.declared.values(), *STEP_LANES)]
    pieces: dict[str, Sequence[Buffer]] = {**dict.fromkeys(blocks, ()), **recorded.pieces}
    if recorded.pieces and REWARD not in recorded.pieces:  # as in a batch save: zeros, marked as synthesized
        pieces[REWARD] = _zeros(recorded.description.length or 0)
        description = replace(description, synthesized=description.synthesized | {REWARD})
    if not any(np.frombuffer(piece, np.uint8).any() for piece in pieces[TRUNCATIONS]):
        del pieces[TRUNCATIONS]  # as in a batch save, where "no truncations recorded" is the absence of the lane
    with contextlib.ExitStack() as files:
        for block, frames in recorded.frames.items():
            pieces[block] = _pack(frames, description, files, target)
        return store(target, description, pieces, plan)


def _pack(
    frames: FlushedFrames, description: Description, files: contextlib.ExitStack, target: Path
) -> Sequence[Buffer]:
    """Return the block of a lane's frames; that of a video is a temporary file beside the target, closed by `files`."""
    if frames.lane.encoding != "mp4":
        return (image_table(chain.from_iterable(frames.sizes())), *frames)
    where = f"{target}: block {frames.lane.block!r}"
    file = files.enter_context(tempfile.TemporaryFile(dir=target.parent))  # noqa: SIM115  (see above)
    count = write_mp4(file, frames, frames.codec, fps=description.timebase.tick_hz, where=where)
    if count != description.length:
        raise CodecError(f"{where}: expected {description.length} frames, found {count}")
    file.flush()
    return (map_file(file.fileno(), where),)


def _zeros(count: int) -> Sequence[Buffer]:
    """Return the bytes of `count` rewards of 0 as repeated references to one piece, so that memory stays constant."""
    size = count * np.dtype("<f4").itemsize
    piece = bytes(1 << 16)
    return [piece] * (size // len(piece)) + [piece[: size % len(piece)]]


def recover(
    partial: str | os.PathLike[str],
    *,
    compression: Compression = CompressionType.NONE,
    frame_steps: FrameSteps | None = None,
) -> Path:
    """Turn the .partial of a killed recording into an episode of all flushed timesteps; returns the episode's path.

    The metadata of the episode has {"recovered": true}; the .partial and temporary files of a killed end_episode are
    removed once the episode exists. Raises FileNotFoundError, RecordingExistsError while its writer is alive,
    FormatError if nothing can be recovered or for invalid compression and frame_steps (CodecError, as in save_wshard).

    Examples:
        >>> channels = [{"id": "signal/state", "dtype": "f32", "shape": [2]}]
        >>> with suppress(KeyboardInterrupt), WShardStreamWriter("cut.wshard", "cut", channels) as writer:
        ...     writer.begin_episode()
        ...     writer.write_timestep({"signal/state": np.zeros(2)})
        ...     raise KeyboardInterrupt
        >>> recover("cut.wshard.partial").name
        'cut.wshard'
    """
    source = Path(partial)
    target = source.with_name(source.name.removesuffix(".partial"))
    if target == source:
        raise LaneError(f"{source}: expected a name that ends in .partial")
    with source.open("r+b") as file:
        journal.lock(file, source)
        if target.exists():
            raise RecordingExistsError(f"{target} exists already: move it away to recover {source.name}")
        description = journal.read(file, str(source)).description
        plan = CodecPlan.of(compression, None, frame_steps)
        plan.check([lane.block for lane in (*description.declared.values(), *STEP_LANES)])
        marked_description = replace(description, metadata={**description.metadata, "recovered": True})
        finalise(file, target, marked_description, plan)
        source.unlink()
    remove_left_behind(Path(os.path.realpath(target)))
    return target


def discard(partial: str | os.PathLike[str]) -> None:
    """Remove the .partial of a killed recording; raises RecordingExistsError while its writer is alive.

    Examples:
        >>> discard("gone.wshard.partial")  # none is there: nothing happens
    """
    source = Path(partial)
    with contextlib.suppress(FileNotFoundError), source.open("r+b") as file:
        journal.lock(file, source)
        source.unlink()
        sync_folder(source.parent)
