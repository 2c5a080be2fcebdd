"""Encode the camera lanes of an episode as JPEG, PNG or MP4."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wshard.core.container.codec_plan import first_match, is_pattern
from wshard.core.episode.frame_rows import CHANNELS
from wshard.core.media.frames import ImageFrames
from wshard.core.media.images import DEFAULT_QUALITY, encode_image
from wshard.core.media.video_frames import VideoFrames
from wshard.core.media.video_writer import encode_video
from wshard.core.messages import shown
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Channel, Episode

Encode = str | Mapping[str, str]

_HIGHEST = {"jpeg": 100, "png": -1, "mp4": 51}


@dataclass(frozen=True)
class CameraEncoding:
    """An encoding, and its quality: 1 to 100 of JPEG, the constant rate factor 0 to 51 of MP4; None = the usual one."""

    name: str
    quality: int | None = None

    @staticmethod
    def parse(text: object) -> CameraEncoding:
        """Read "jpeg", "jpeg:90", "png", "mp4" or "mp4:18"; raises EpisodeError."""
        name, colon, number = text.partition(":") if isinstance(text, str) else ("", "", "")
        quality = int(number) if number.isdecimal() else -1
        if name not in CHANNELS or (colon and not 0 <= quality <= _HIGHEST[name]):
            raise EpisodeError(f"encode: expected such as 'jpeg:90', 'png' or 'mp4:23', found {shown(text)}")
        return CameraEncoding(name, quality if colon else None)

    def fits(self, channel: Channel) -> bool:
        """Return True for frames [H, W, C] that the encoding can hold."""
        size, dtype = channel.shape, channel.data.dtype
        deep = self.name == "png" and dtype == np.uint16 and size[2:] == [1]
        return len(size) == 3 and min(size) > 0 and size[2] in CHANNELS[self.name] and (deep or dtype == np.uint8)

    def encode(self, channel: Channel, fps: float) -> EncodedFrames:
        """Return the frames of a channel, encoded; raises EpisodeError, MissingExtraError."""
        height, width, channels = channel.shape
        if self.name == "mp4":
            file = io.BytesIO()
            options = {} if self.quality is None else {"crf": str(self.quality)}
            encode_video(channel.data, file, fps=fps, options=options)
            return VideoFrames(
                file.getvalue(), count=channel.length, frame_shape=(height, width, channels), where=channel.name
            )
        quality = DEFAULT_QUALITY if self.quality is None else self.quality
        images = [encode_image(frame, self.name, quality=quality) for frame in channel.data]
        return ImageFrames(self.name, images, where=channel.name)


def encode_cameras(ep: Episode, encode: Encode | None) -> Episode:
    """Return the episode with observations encoded: all that are frames, or {"signal/rgb": "jpeg:90", "*": "png"}.

    Patterns apply to uint8 [H, W, C] only, and lanes that are already encoded do not change. Raises EpisodeError for an
    unknown encoding, and for a named lane that does not exist or cannot be encoded.
    """
    if encode is None:
        return ep
    by_name = encode if isinstance(encode, Mapping) else {"*": encode}
    rules = tuple((pattern, CameraEncoding.parse(text)) for pattern, text in by_name.items())
    lanes = dict(ep.observations)
    for pattern, encoding in rules:
        channel = lanes.get(pattern.removeprefix("signal/")) if pattern.startswith("signal/") else None
        if not is_pattern(pattern) and (channel is None or not (channel.encoded or encoding.fits(channel))):
            found = "no such lane" if channel is None else f"{channel.dtype.value} {channel.shape}"
            raise EpisodeError(f"encode: {pattern!r}: expected an observation of frames [H, W, C], found {found}")
    for name, channel in lanes.items():
        matched = first_match(rules, f"signal/{name}")
        if matched is not None and channel.encoded is None and matched.fits(channel):
            lanes[name] = replace(channel, data=None, encoded=matched.encode(channel, ep.timebase.tick_hz))
    return replace(ep, observations=lanes)
