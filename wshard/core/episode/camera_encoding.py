"""An encoding of camera frames as users name it: which frames it can hold, and how they are encoded."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.episode.frame_rows import CHANNELS
from wshard.core.media.camera_encoder import ImageEncoder
from wshard.core.media.frames import ImageFrames
from wshard.core.media.images import DEFAULT_QUALITY, find_simplejpeg
from wshard.core.media.open_video import import_av
from wshard.core.media.video_frames import VideoFrames
from wshard.core.media.video_stream import VideoStream
from wshard.core.media.video_writer import AV1_OPTIONS, encode_video
from wshard.core.messages import shown
from wshard.core.plugins import import_library
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.media.camera_encoder import CameraEncoder
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Channel

_QUALITIES: Final = {"jpeg": range(1, 101), "png": range(0), "h264": range(52), "av1": range(64)}
_ALIASES: Final = {"mp4": "h264"}
STORED_AS: Final = {"jpeg": "jpeg", "png": "png", "h264": "mp4", "av1": "mp4"}
"""The encoding that a lane declares, by the codec of its frames."""


@dataclass(frozen=True)
class CameraEncoding:
    """A codec, and its quality: 1 to 100 of JPEG, the constant rate factor of H.264 and AV1; None = the usual one."""

    name: str
    quality: int | None = None

    @staticmethod
    def parse(text: object, option: str = "encode") -> CameraEncoding:
        """Read "jpeg", "jpeg:90", "png", "h264", "h264:18", its other name "mp4", or "av1"; raises EpisodeError."""
        name, colon, number = text.partition(":") if isinstance(text, str) else ("", "", "")
        name, quality = _ALIASES.get(name, name), int(number) if number.isdecimal() else -1
        if name not in _QUALITIES or (colon and quality not in _QUALITIES[name]):
            limits = "jpeg:1 to jpeg:100, png, h264:0 to h264:51 (or mp4), av1:0 to av1:63"
            raise EpisodeError(f"{option}: expected such as 'jpeg:90', of {limits}; found {shown(text)}")
        return CameraEncoding(name, quality if colon else None)

    @property
    def stored_as(self) -> str:
        """The encoding that the lane declares."""
        return STORED_AS[self.name]

    @property
    def frames(self) -> str:
        """The frames that it can hold, in words."""
        if self.name == "av1":
            return "uint8 frames [H, W, 3] of even height and width"
        numbers = " or ".join(map(str, CHANNELS[self.stored_as]))
        return f"uint8 frames [H, W, C], C {numbers}{', or uint16 [H, W, 1]' if self.name == 'png' else ''}"

    def fits(self, shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
        """Return True for frames [H, W, C] that the encoding can hold."""
        if len(shape) != 3 or min(shape) < 1 or shape[2] not in CHANNELS[self.stored_as]:
            return False
        if self.name == "av1" and (shape[0] % 2 or shape[1] % 2 or shape[2] == 1):
            return False
        return dtype == np.uint8 or (self.name == "png" and dtype == np.uint16 and shape[2] == 1)

    def encode(self, channel: Channel, fps: float) -> EncodedFrames:
        """Return the frames of a channel, encoded; raises EpisodeError, MissingExtraError."""
        height, width, channels = channel.shape
        if self.stored_as == "mp4":
            file, codec = io.BytesIO(), "libx264" if self.name == "h264" else "libsvtav1"
            options = {} if self.name == "h264" else AV1_OPTIONS
            options = options if self.quality is None else options | {"crf": str(self.quality)}
            encode_video(channel.data, file, fps=fps, codec=codec, options=options)
            return VideoFrames(
                file.getvalue(), count=channel.length, frame_shape=(height, width, channels), where=channel.name
            )
        encoder = self.encoder(channel.shape)
        return ImageFrames(self.name, [encoder.encode(frame) for frame in channel.data], where=channel.name)

    def encoder(self, shape: Sequence[int]) -> CameraEncoder:
        """Return an encoder of frames of this shape; raises EpisodeError, MissingExtraError."""
        if self.stored_as == "mp4":
            return VideoStream(self.name, shape, quality=self.quality)
        return ImageEncoder(self.name, DEFAULT_QUALITY if self.quality is None else self.quality)

    def import_libraries(self) -> None:
        """Raise MissingExtraError unless the library that encodes is installed."""
        if self.stored_as == "mp4":
            import_av()
        elif self.name == "png" or find_simplejpeg() is None:
            import_library("PIL.Image", "images")
