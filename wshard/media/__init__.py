"""Camera frames encoded as JPEG, PNG or MP4, decoded on access."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from wshard.media.frames import EncodedFrames, ImageFrames
    from wshard.media.images import decode_image, encode_image
    from wshard.media.video_frames import VideoFrames
    from wshard.media.video_writer import encode_video

__all__ = ["EncodedFrames", "ImageFrames", "VideoFrames", "decode_image", "encode_image", "encode_video"]

__getattr__ = importer(
    "wshard.media",
    {
        "EncodedFrames": "wshard.media.frames",
        "ImageFrames": "wshard.media.frames",
        "VideoFrames": "wshard.media.video_frames",
        "decode_image": "wshard.media.images",
        "encode_image": "wshard.media.images",
        "encode_video": "wshard.media.video_writer",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
