"""Frames of a lane as rows, decoded directly into a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.episode.encoded_lane import EncodedLane, StoredImages
from wshard.media.frames import ImageFrames
from wshard.media.video_frames import VideoFrames
from wshard.media.video_pool import POOL

if TYPE_CHECKING:
    from wshard.episode.lane_view import LazyLane
    from wshard.media.frames import EncodedFrames
    from wshard.types import Array

_VIDEO_MEMORY: Final = 1 << 28
_FRAME_COST: Final = 96
_MAX_VIDEOS: Final = 256


class FrameRows:
    """Encoded frames that are decoded into arrays; `frames` stay open with their file."""

    def __init__(self, frames: EncodedFrames) -> None:
        self._frames = frames

    def read_into(self, out: Array, start: int, stride: int) -> None:
        """Decode len(out) frames, `stride` apart, from `start` on."""
        if stride == 1:
            self._frames.decode_into(out, start)
            return
        for number in range(len(out)):
            self._frames.decode_into(out[number : number + 1], start + number * stride)

    def __getitem__(self, steps: slice) -> Array:
        return self._frames.decode(steps.start, steps.stop)


def frame_rows(view: LazyLane, frames: EncodedFrames) -> FrameRows:
    """Return the frames of a lane as rows.

    Images in an episode file are views of it, without verifying a checksum. Videos stay open, as many as memory allows.
    """
    if isinstance(frames, VideoFrames):
        height, width, _ = frames.shape
        POOL.allow(min(_MAX_VIDEOS, _VIDEO_MEMORY // (height * width * _FRAME_COST)))
    elif isinstance(view, EncodedLane) and isinstance(frames, ImageFrames) and isinstance(frames.images, StoredImages):
        frames = replace(frames, images=_MappedImages(view, frames.images))
    return FrameRows(frames)


class _MappedImages(Sequence[Any]):
    """The images of a block, as views of its file."""

    def __init__(self, view: EncodedLane, images: StoredImages) -> None:
        self._data = view.stored_bytes()
        count = len(images)
        _ = images[0:count]  # checks their offsets
        self._offsets: list[int] = np.frombuffer(self._data[: 8 * (count + 1)], "<u8").tolist()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, step: Any) -> Any:
        return self._data[self._offsets[step] : self._offsets[step + 1]]
