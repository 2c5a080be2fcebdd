"""Compare encoded lanes by their decoded values; equal bytes need no decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.media.frames import ImageFrames
from wshard.media.video_frames import VideoFrames

if TYPE_CHECKING:
    from wshard.media.frames import EncodedFrames

_BATCH_SIZE: Final = 16


def are_same_frames(left: EncodedFrames, right: EncodedFrames) -> bool:
    """Return True for equal frames; frames are decoded only if their bytes differ, up to the first difference.

    Raises the errors of EncodedFrames.decode.
    """
    if left is right:
        return True
    if (left.length, left.shape, left.dtype) != (right.length, right.shape, right.dtype):
        return False
    if isinstance(left, ImageFrames) and isinstance(right, ImageFrames):
        return all(
            bytes(left.image(step)) == bytes(right.image(step))
            or np.array_equal(left.decode(step, step + 1), right.decode(step, step + 1))
            for step in range(left.length)
        )
    if isinstance(left, VideoFrames) and isinstance(right, VideoFrames) and left.is_same_span(right):
        return True
    return all(
        np.array_equal(left.decode(start, stop), right.decode(start, stop))
        for start in range(0, left.length, _BATCH_SIZE)
        for stop in (min(start + _BATCH_SIZE, left.length),)
    )
