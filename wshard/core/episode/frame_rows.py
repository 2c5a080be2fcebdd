"""Rows of meta/channels that describe encoded camera frames. Rules by number: FORMAT.md."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, Final

from wshard.core.array_fields import DType
from wshard.core.media.image_header import MAX_PIXELS
from wshard.errors import LaneError

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANNELS: Final = {"jpeg": (1, 3), "png": (1, 2, 3, 4), "mp4": (1, 3)}
"""The encodings, and the numbers of channels that their frames have."""

_PREFIXES: Final = ("signal/", "action/", "omen/", "uncert/")
_MAX_FRAMES: Final = 1 << 40


def read_encoding(
    row: Mapping[str, Any], block: str, dtype: DType, shape: tuple[int, ...], where: str
) -> tuple[str, DType, tuple[int, ...], int]:
    """Return encoding, dtype and shape of the decoded frames, and the number of the first one in a video.

    dtype, shape: those for readers that take the block as bytes. Raises LaneError.
    """
    encoding, frame_shape, first_frame = row["encoding"], row.get("frame_shape"), row.get("first_frame", 0)
    if not block.startswith(_PREFIXES):
        raise LaneError(f"{where}: encoding: expected it of a block below {', '.join(_PREFIXES)}")
    if not isinstance(encoding, str) or encoding not in CHANNELS:
        raise LaneError(f"{where}: encoding: expected one of {', '.join(CHANNELS)}, found {reprlib.repr(encoding)}")
    if (dtype, shape) != (DType.UINT8, ()):
        raise LaneError(f"{where}: expected u8 [] for an encoded lane, found {dtype.value} {list(shape)}")
    frame_dtype = DType.parse(row.get("frame_dtype", "u8"), where, "frame_dtype")
    if (
        not isinstance(frame_shape, list)
        or len(frame_shape) != 3
        or not all(type(size) is int and size > 0 for size in frame_shape)
    ):
        raise LaneError(f"{where}: frame_shape: expected height, width and channels, found {reprlib.repr(frame_shape)}")
    if frame_shape[0] * frame_shape[1] > MAX_PIXELS or frame_shape[2] not in CHANNELS[encoding]:
        raise LaneError(
            f"{where}: frame_shape: expected at most {MAX_PIXELS} pixels as {encoding}, found {frame_shape}"
        )
    if frame_dtype is not DType.UINT8 and (frame_dtype is not DType.UINT16 or frame_shape[2] > 1 or encoding == "jpeg"):
        raise LaneError(f"{where}: frame_dtype: expected u8, or u16 of gray png and mp4, found {frame_dtype.value}")
    if type(first_frame) is not int or not 0 <= first_frame < _MAX_FRAMES or (first_frame and encoding != "mp4"):
        raise LaneError(
            f"{where}: first_frame: expected the number of a frame of a video, found {reprlib.repr(first_frame)}"
        )
    return encoding, frame_dtype, tuple(frame_shape), first_frame
