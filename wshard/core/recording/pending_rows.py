"""The timesteps of a recording that wait for the next flush."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wshard.core.container.layout import FRAME_SIZE
from wshard.core.episode.encode import as_bytes
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.container.layout import Buffer
    from wshard.core.recording.recorded_lane import RecordedLane
    from wshard.core.types import Array


class PendingRows:
    """Up to `capacity` timesteps of some lanes; frames of lanes with a codec are encoded as they come.

    Raises EpisodeError for frames that cannot be encoded, MissingExtraError.
    """

    def __init__(self, lanes: Sequence[RecordedLane], capacity: int) -> None:
        self.lanes = {lane.block: lane for lane in lanes}
        self.count = 0
        plain = [lane for lane in lanes if lane.codec is None]
        self._values = {lane.block: np.zeros((capacity, *lane.shape), lane.dtype.numpy_dtype) for lane in plain}
        self._encoders = {lane.block: lane.codec.encoder(lane.shape) for lane in lanes if lane.codec is not None}
        self._frames: dict[str, list[bytes]] = {block: [] for block in self._encoders}

    def check(self, rows: Sequence[tuple[RecordedLane, Array]], step: Sequence[tuple[str, float]], number: int) -> None:
        """Raise EpisodeError unless a timestep has the lanes, and its frames the sizes, of the first one."""
        if len(rows) + len(step) != len(self.lanes) or any(block not in self.lanes for block, _ in step):
            found = ", ".join([lane.block for lane, _ in rows] + [block for block, _ in step])
            expected = ", ".join(self.lanes)
            raise EpisodeError(f"timestep {number}: expected what the first timestep had: {expected}; found {found}")
        for lane, value in rows:
            if lane.block not in self.lanes:
                raise EpisodeError(f"timestep {number}: channel {lane.block!r} was absent in the first timestep")
            if lane.codec is not None and value.shape != self.lanes[lane.block].shape:
                raise EpisodeError(
                    f"timestep {number}: {lane.block}: expected frames of {list(self.lanes[lane.block].shape)}, "
                    f"as in the first timestep, found {list(value.shape)}"
                )

    @property
    def encodes(self) -> bool:
        """Whether a lane has a codec."""
        return bool(self._encoders)

    def encode(self, rows: Sequence[tuple[RecordedLane, Array]]) -> None:
        """Add the frames of a timestep that was checked."""
        for lane, value in rows:
            if lane.codec is not None:
                self._frames[lane.block].append(self._encoders[lane.block].encode(value))

    def append(self, rows: Sequence[tuple[RecordedLane, Array]], step: Sequence[tuple[str, float]]) -> None:
        """Add all else of that timestep."""
        row = self.count
        for lane, value in rows:
            if lane.codec is None:
                self._values[lane.block][row] = value
        for block, number in step:
            self._values[block][row] = number
        self.count += 1

    def take(self) -> list[Buffer]:
        """Return the bytes of the timesteps as a flush stores them, and begin anew; valid until the next append."""
        pieces = [piece for values in self._values.values() for piece in as_bytes(values[: self.count])]
        for block, frames in self._frames.items():
            pieces += [b"".join(FRAME_SIZE.pack(len(frame)) for frame in frames), *frames]
            self._frames[block] = []
        self.count = 0
        return pieces

    def close(self) -> None:
        """End the encoders."""
        for encoder in self._encoders.values():
            encoder.close()
