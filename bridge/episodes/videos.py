"""Lanes of encoded video as the bytes of their file, for players that decode it themselves."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import numpy as np

from wshard.core.media.open_video import video_place
from wshard.core.media.video_frames import VideoFrames
from wshard.core.media.video_pool import POOL
from wshard.errors import FormatError, QueryError

if TYPE_CHECKING:
    from wshard.core.episode.protocol import EpisodeReader

MAX_PART: Final = 1 << 22
"""Maximum number of bytes per read; players request the next ones."""

_MAX_OFFSET: Final = 0.1  # of a period: players that are given a time further off show another frame


@dataclass(frozen=True)
class VideoLane:
    """A lane that is a span of a video: timestep t is shown from start + t / rate seconds on, unless rate is None."""

    lane: str
    start: float
    rate: float | None


class VideoPart(NamedTuple):
    """Bytes of a video from `start` on, and its total size."""

    data: bytes
    start: int
    size: int


def find_videos(file: EpisodeReader) -> list[VideoLane]:
    """Return the lanes that are videos which a player shows as they are read: whole, with frames at regular times.

    Raises MissingExtraError and other errors of reading the episode.
    """
    videos = []
    for name in file.lanes():
        frames = file.encoded(name)
        if isinstance(frames, VideoFrames) and frames.length:
            with suppress(FormatError, OSError):  # of one camera: its frames are read one by one, and say why not
                videos += _playable(name, frames)
    return videos


def _playable(name: str, frames: VideoFrames) -> list[VideoLane]:
    with POOL.use(frames.source, frames.where) as video:
        first = frames.number_in(video)
        times = video.times[first : first + frames.length]
    seconds = float(times[-1] - times[0])
    if seconds <= 0:
        return [VideoLane(name, float(times[0]), None)]
    rate = (len(times) - 1) / seconds
    offsets = (times - times[0]) * rate - np.arange(len(times))
    return [VideoLane(name, float(times[0]), rate)] if np.abs(offsets).max() <= _MAX_OFFSET else []


def read_video(file: EpisodeReader, lane: str, start: int, stop: int | None) -> VideoPart:
    """Return bytes [start, stop) of a lane's video, at most MAX_PART; none if start is after its end.

    Raises EntryNotFoundError, QueryError for a lane that is not a video, OSError.
    """
    frames = file.encoded(lane)
    if not isinstance(frames, VideoFrames):
        raise QueryError(f"{lane}: expected a lane of encoded video, found none")
    with _open(frames) as video:
        size = video.seek(0, os.SEEK_END)
        end = size if stop is None else min(stop, size)
        video.seek(min(start, size))
        return VideoPart(video.read(max(0, min(end - start, MAX_PART))), start, size)


def _open(frames: VideoFrames) -> IO[bytes]:
    source = frames.source
    if isinstance(source, bytes):
        return io.BytesIO(source)
    return source() if callable(source) else video_place(source).open()
