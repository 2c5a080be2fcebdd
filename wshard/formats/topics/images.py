"""Camera frames in messages: which topics have them, the encoded image of a message, and the pixels of a raw one."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.messages import shown
from wshard.errors import FormatError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.types import Array

_COMPRESSED: Final = re.compile(r"(sensor_msgs|foxglove|foxglove_msgs)[/.](msg/)?CompressedImage")
_RAW: Final = re.compile(r"(sensor_msgs|foxglove|foxglove_msgs)[/.](msg/)?(Image|RawImage)")
_DEPTH_HEAD: Final = 12  # bytes that compressed_depth_image_transport puts in front of a PNG
_PIXELS: Final = {  # dtype, channels, and their order as red, green, blue
    "rgb8": ("u1", 3, (0, 1, 2)),
    "bgr8": ("u1", 3, (2, 1, 0)),
    "rgba8": ("u1", 4, (0, 1, 2, 3)),
    "bgra8": ("u1", 4, (2, 1, 0, 3)),
    "mono8": ("u1", 1, (0,)),
    "8uc1": ("u1", 1, (0,)),
    "8uc3": ("u1", 3, (2, 1, 0)),
    "mono16": ("u2", 1, (0,)),
    "16uc1": ("u2", 1, (0,)),
    "32fc1": ("f4", 1, (0,)),
}


def holds_encoded_images(type_name: str) -> bool:
    """Say whether messages of this type are images as JPEG or PNG."""
    return _COMPRESSED.fullmatch(type_name) is not None


def holds_raw_images(type_name: str) -> bool:
    """Say whether messages of this type are images pixel by pixel."""
    return _RAW.fullmatch(type_name) is not None


def encoded_image(message: Mapping[str, Any]) -> bytes:
    """Return the JPEG or PNG of a message; raises FormatError."""
    data = _bytes_of(message)
    is_depth = "compressedDepth" in str(message.get("format", ""))
    return data[_DEPTH_HEAD:] if is_depth else data


def raw_image(message: Mapping[str, Any]) -> Array:
    """Return the pixels of a message [H, W, C], colors as red, green, blue; raises FormatError, UnsupportedFormatError.

    Not supported are the patterns of Bayer, YUV and the like.
    """
    data, encoding = _bytes_of(message), str(message.get("encoding", ""))
    if encoding.lower() not in _PIXELS:
        raise UnsupportedFormatError(f"expected an image in {', '.join(_PIXELS)}, found {shown(encoding)}")
    kind, channels, order = _PIXELS[encoding.lower()]
    height, width, step = (int(message.get(name, 0)) for name in ("height", "width", "step"))
    dtype = np.dtype(kind).newbyteorder(">" if message.get("is_bigendian") else "<")
    row = width * channels * dtype.itemsize
    if not row or not height or step < row or len(data) < step * (height - 1) + row:
        raise FormatError(
            f"expected an image of {height} rows of {step} bytes, {row} of them pixels, found {len(data)} bytes"
        )
    rows = np.frombuffer(data.ljust(step * height, b"\0"), np.uint8, step * height).reshape(height, step)[:, :row]
    pixels = np.ascontiguousarray(rows).view(dtype).reshape(height, width, channels)
    return np.ascontiguousarray(pixels[:, :, order], np.dtype(kind))


def _bytes_of(message: Mapping[str, Any]) -> bytes:
    data = message.get("data")
    if isinstance(data, np.ndarray):
        return data.tobytes()
    if isinstance(data, bytes):
        return data
    try:
        return base64.b64decode(str(data or ""), validate=True)
    except binascii.Error as error:
        raise FormatError(f"expected the bytes of an image in base64: {error}") from error
