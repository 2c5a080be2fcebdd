"""The header of a JPEG or PNG: size and channels, checked before anything is decoded."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wshard.errors import CodecError, LimitError, UnsupportedFormatError

if TYPE_CHECKING:
    from wshard.core.container.layout import Buffer

MAX_PIXELS: Final = 1 << 26
"""Pixels of one frame: 8192 x 8192. Larger frames are refused before they are decoded."""

_PNG_MAGIC: Final = b"\x89PNG\r\n\x1a\n"
_PNG_HEADER: Final = struct.Struct(">I4sIIBB")  # of the first chunk: size, kind, width, height, depth, color type
_PNG_CHANNELS: Final = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_JPEG_MAGIC: Final = b"\xff\xd8"
_JPEG_FRAME: Final = struct.Struct(">BHHB")  # precision, height, width, components
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_PROGRESSIVE: Final = 0xC2
_JPEG_SCAN: Final = 0xDA
_JPEG_WITHOUT_SIZE: Final = frozenset(range(0xD0, 0xD9)) | {0x01}
_MAX_SCANS: Final = 500  # each costs a pass over the whole image, whatever its size


class ImageHeader(NamedTuple):
    """Encoding ("jpeg" or "png"), and shape [H, W, C] and dtype of the decoded image."""

    encoding: str
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]


def read_image_header(data: Buffer, where: str = "image") -> ImageHeader:
    """Read the header of a JPEG or PNG; nothing is decoded.

    Raises CodecError for other bytes, LimitError above MAX_PIXELS, UnsupportedFormatError for JPEG with other than 1
    or 3 components and for PNG in color with 16 bits.
    """
    magic = bytes(data[: len(_PNG_MAGIC)])
    if magic == _PNG_MAGIC:
        return _read_png(data, where)
    if magic[:2] == _JPEG_MAGIC:
        return _read_jpeg_frame(data, _find_frame(data, where), where)
    # The bytes are not quoted: the file may be a link to one that whoever sees the message may not read.
    raise CodecError(f"{where}: expected a JPEG or PNG, found {len(data)} bytes of neither")


def check_pixels(width: int, height: int, where: str) -> None:
    """Raise LimitError above MAX_PIXELS, CodecError for frames without pixels."""
    if width < 1 or height < 1:
        raise CodecError(f"{where}: expected a frame of at least 1 x 1 pixels, found {width} x {height}")
    if width * height > MAX_PIXELS:
        raise LimitError(f"{where}: expected at most {MAX_PIXELS} pixels, found {width} x {height}")


def _read_png(data: Buffer, where: str) -> ImageHeader:
    try:
        _, kind, width, height, depth, color = _PNG_HEADER.unpack_from(data, len(_PNG_MAGIC))
    except struct.error:
        raise CodecError(f"{where}: the PNG ends in its header, after {len(data)} bytes") from None
    channels = _PNG_CHANNELS.get(color)
    if kind != b"IHDR" or channels is None:
        raise CodecError(f"{where}: expected the header of a PNG, found {kind!r} with color type {color}")
    check_pixels(width, height, where)
    if depth == 16 and channels > 1:
        raise UnsupportedFormatError(f"{where}: expected a PNG with 8 bits per channel, or gray, found 16 in color")
    return ImageHeader("png", (height, width, channels), np.dtype(np.uint16 if depth == 16 else np.uint8))


def header_prefix(data: Buffer) -> bytes:
    """Return the first bytes of a JPEG up to the end of its frame header: images that begin so have the same header.

    b"" for a PNG, and for a progressive JPEG, as the scans of each image must be counted.
    """
    if bytes(data[: len(_JPEG_MAGIC)]) != _JPEG_MAGIC:
        return b""
    offset = _find_frame(data, "image")
    return b"" if data[offset + 1] == _JPEG_PROGRESSIVE else bytes(data[: offset + 4 + _JPEG_FRAME.size])


def _find_frame(data: Buffer, where: str) -> int:
    """Return the offset of the frame header of a JPEG; raises CodecError if there is none."""
    offset = len(_JPEG_MAGIC)
    while offset + 4 <= len(data):
        if data[offset] != 0xFF:
            raise CodecError(f"{where}: expected a marker of a JPEG at byte {offset}, found {data[offset]:#04x}")
        marker = data[offset + 1]
        if marker == 0xFF or marker in _JPEG_WITHOUT_SIZE:
            offset += 1 if marker == 0xFF else 2
            continue
        size = data[offset + 2] << 8 | data[offset + 3]
        if marker in _JPEG_FRAMES and offset + 4 + _JPEG_FRAME.size <= len(data):
            return offset
        if marker == _JPEG_SCAN or size < 2:
            break
        offset += 2 + size
    raise CodecError(f"{where}: expected a JPEG with a frame header, found none in {len(data)} bytes")


def _read_jpeg_frame(data: Buffer, offset: int, where: str) -> ImageHeader:
    precision, height, width, components = _JPEG_FRAME.unpack_from(data, offset + 4)
    check_pixels(width, height, where)
    if precision != 8 or components not in {1, 3}:
        raise UnsupportedFormatError(
            f"{where}: expected a JPEG of 1 or 3 components with 8 bits, found {components} with {precision}"
        )
    if data[offset + 1] == _JPEG_PROGRESSIVE:
        scans = bytes(data).count(bytes((0xFF, _JPEG_SCAN)))
        if scans > _MAX_SCANS:
            raise LimitError(f"{where}: expected a JPEG of at most {_MAX_SCANS} scans, found {scans}")
    return ImageHeader("jpeg", (height, width, components), np.dtype(np.uint8))
