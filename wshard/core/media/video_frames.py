"""A span of an MP4 as encoded frames, addressed by time or by number."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wshard.core.arguments import finite_number, whole_number
from wshard.core.files.place import Place
from wshard.core.media.frames import EncodedFrames, ImageFrames
from wshard.core.media.open_video import TOLERANCE
from wshard.core.media.video_pool import POOL
from wshard.errors import CodecError, EpisodeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.core.media.open_video import OpenVideo, VideoSource

_BATCH_SIZE: Final = 16


class VideoProperties(NamedTuple):
    """Shape and dtype of a video's frames, and the number of frames in its file."""

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    frames: int


@dataclass(frozen=True, eq=False, repr=False)
class VideoFrames(EncodedFrames):
    """`count` frames of an MP4.

    With from_timestamp and fps, frame t is the one at from_timestamp + t / fps seconds, within TOLERANCE. Otherwise
    frame t is number first + t of the file, in display order. source: a path, bytes, or a function that opens the file;
    after unpickling it is opened again. frame_shape: the shape of the frames, if known; with one channel, frames are
    the luma of the video.
    """

    source: VideoSource
    _: KW_ONLY
    count: int | None = None
    first: int = 0
    fps: float | None = None
    from_timestamp: float | None = None
    frame_shape: tuple[int, int, int] | None = None
    frame_dtype: np.dtype[Any] | None = None
    where: str = "video"

    encoding = "mp4"

    def __post_init__(self) -> None:
        """Use the path as the name in messages; raises EpisodeError for invalid numbers and times."""
        whole_number(self.first, f"{self.where}: first", EpisodeError, least=0)
        if self.count is not None:
            whole_number(self.count, f"{self.where}: count", EpisodeError, least=0)
        if self.from_timestamp is not None:
            finite_number(self.from_timestamp, f"{self.where}: from_timestamp", EpisodeError)
            if self.count is None or self.fps is None or finite_number(self.fps, "fps", EpisodeError) <= 0:
                raise EpisodeError(f"{self.where}: from_timestamp: expected count and fps > 0 too, found {self.fps}")
        if self.where == "video" and isinstance(self.source, str | os.PathLike | Place):
            object.__setattr__(self, "where", str(self.source))

    @property
    def length(self) -> int:
        """The number of frames."""
        return max(0, self._properties.frames - self.first) if self.count is None else self.count

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels: 1 for gray videos, 3 for all others."""
        return self._properties.shape if self.frame_shape is None else self.frame_shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint8; uint16 for gray videos with more than 8 bits, whose codes are returned unchanged."""
        if self.frame_dtype is None:
            return np.dtype(np.uint8) if self.shape[2] == 3 else self._properties.dtype
        return self.frame_dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the whole file."""
        if isinstance(self.source, bytes):
            return len(self.source)
        with POOL.use(self.source, self.where) as video:
            return video.size

    def slice(self, start: int, stop: int | None = None) -> VideoFrames:
        """Return the frames [start, stop)."""
        steps = self.steps(start, stop)
        return replace(self, first=self.first + steps.start, count=len(steps))

    def decode_into(self, out: NDArray[Any], start: int) -> None:
        """Decode frames into out [n, H, W, C]."""
        with POOL.use(self.source, self.where) as video:
            try:
                video.read_into(out, self._times(video, self.first + start, len(out)))
            except CodecError:
                if self.from_timestamp is not None or not video.count_frames():
                    raise
                video.read_into(out, self._times(video, self.first + start, len(out)))

    def _times(self, video: OpenVideo, first: int, count: int) -> NDArray[np.float64]:
        if self.from_timestamp is not None and self.fps is not None:
            return self.from_timestamp + np.arange(first, first + count) / self.fps
        times = video.times[first : first + count]
        if len(times) < count:
            raise CodecError(
                f"{self.where}: expected frames {first} to {first + count - 1}, found a video of {len(video.times)}"
            )
        return times

    def number_in(self, video: OpenVideo) -> int:
        """Return the number of the first frame in the file.

        Raises CodecError if a frame is not at its time, LaneError for frames of another size.
        """
        if self.frame_shape is not None:
            video.check_frames(self.frame_shape, self.dtype)
        video.count_frames()
        if self.from_timestamp is None:
            self._times(video, self.first, self.length)
            return self.first
        times = self._times(video, self.first, self.length)
        number = int(np.abs(video.times - times[0]).argmin()) if len(video.times) and len(times) else 0
        file_times = video.times[number : number + len(times)]
        if len(file_times) < len(times) or (np.abs(file_times - times) > TOLERANCE).any():
            raise CodecError(f"{self.where}: expected {len(times)} frames at {self.fps} per second, found other times")
        return number

    def is_same_span(self, other: VideoFrames) -> bool:
        """Return True for the same frames of the same bytes."""
        own_span = (self.first, self.length, self.fps, self.from_timestamp)
        if own_span != (other.first, other.length, other.fps, other.from_timestamp):
            return False
        if self.source is other.source or self.source == other.source:
            return True
        with POOL.use(self.source, self.where) as video, POOL.use(other.source, other.where) as other_video:
            return video.size == other_video.size and video.read_file() == other_video.read_file()

    @cached_property
    def _properties(self) -> VideoProperties:
        with POOL.use(self.source, self.where) as video:
            return VideoProperties(video.shape, video.dtype, 0 if self.from_timestamp is not None else len(video.times))


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
