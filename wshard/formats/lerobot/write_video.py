"""Write the frames of one episode to a separate MP4: copied packets if possible, otherwise encoded again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.media.open_video import TOLERANCE, OpenVideo
from wshard.core.media.video_copy import copy_video
from wshard.core.media.video_frames import VideoFrames
from wshard.core.media.video_writer import encode_video
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from pathlib import Path

    from wshard.core.types import Channel


def write_video(channel: Channel, path: Path, fps: float, *, from_start: bool) -> float:
    """Write the frames of a channel; returns the time of the first one in the file, in seconds.

    from_start: the file must begin with the first frame. Raises EpisodeError for frames that no video can hold.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    copied = None if not isinstance(channel.encoded, VideoFrames) else _copy(channel.encoded, fps)
    if copied is not None and not (from_start and copied[1]):
        path.write_bytes(copied[0])
        return copied[1] / fps
    if channel.dtype.value != "u8":
        raise EpisodeError(f"{channel.name}: expected frames of uint8, or depth in an MP4 that can be copied")
    encode_video(iter(channel.data), path, fps=fps, options={"g": "2"})
    return 0.0


def _copy(frames: VideoFrames, fps: float) -> tuple[bytes, int] | None:
    """Return an MP4 with the packets of the frames, and the number of the first; None if times do not match the rate.

    Raises MissingFileError, CodecError.
    """
    data, first = copy_video(frames)
    video = OpenVideo(data, frames.where)
    try:
        times = video.times
    finally:
        video.close()
    expected = np.arange(first, first + frames.length) / fps
    actual = times[first : first + frames.length]
    is_same = len(actual) == len(expected) and bool((np.abs(actual - expected) <= TOLERANCE).all())
    return (data, first) if is_same else None


def describe_video(path: Path) -> dict[str, Any]:
    """Return the entries of info.json about the videos of a camera, from one of them."""
    video = OpenVideo(path, str(path))
    try:
        codec = video.stream.codec_context
        name, pixels = codec.codec.canonical_name, str(codec.pix_fmt)
    finally:
        video.close()
    height, width, channels = video.shape
    return {
        "video.height": height,
        "video.width": width,
        "video.codec": name,
        "video.pix_fmt": pixels,
        "video.is_depth_map": video.dtype == np.uint16,
        "video.channels": channels,
        "has_audio": False,
    }
