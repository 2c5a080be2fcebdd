"""Encode and decode single images: JPEG by simplejpeg if it is installed, everything else by Pillow."""

from __future__ import annotations

import io
import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.arguments import integer
from wshard.core.media.image_header import ImageHeader, check_pixels, read_image_header
from wshard.core.plugins import import_library
from wshard.errors import CodecError, EpisodeError, LaneError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

    from wshard.core.container.layout import Buffer

ENCODINGS: Final = ("jpeg", "png")
DEFAULT_QUALITY: Final = 95

_PNG_LEVEL: Final = 4  # of zlib: half the time of 6, and 6 % more bytes
_PNG_LEVEL_16: Final = 1  # of depths, whose noise compresses badly: half the time of 4, and 6 to 11 % more bytes
_MODES: Final = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_PILLOW_ERRORS: Final = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, struct.error, zlib.error)


def decode_image(
    data: Buffer,
    expected_shape: tuple[int, ...] | None = None,
    *,
    where: str = "image",
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Decode a JPEG or PNG to [H, W, C], uint8, or uint16 for a gray PNG with 16 bits; into `out` if given.

    C is 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGBA); palettes become RGB. The values are those of Pillow. Raises
    CodecError for an incomplete or invalid image, LimitError above MAX_PIXELS, LaneError for another shape than the
    expected one, MissingExtraError if no library is installed.
    """
    header = read_image_header(data, where)
    if expected_shape is not None and header.shape != tuple(expected_shape):
        raise LaneError(f"{where}: expected an image of shape {list(expected_shape)}, found {list(header.shape)}")
    pixels = np.empty(header.shape, header.dtype) if out is None else out
    if (pixels.shape, pixels.dtype) != (header.shape, header.dtype):
        raise LaneError(
            f"{where}: expected {pixels.dtype} {list(pixels.shape)}, found {header.dtype} {[*header.shape]}"
        )
    decode_as(header, data, pixels, where=where)
    return pixels


def decode_as(header: ImageHeader, data: Buffer, out: NDArray[Any], *, where: str) -> None:
    """Decode an image whose header has been read into `out`, an array of the header's shape and dtype."""
    decode = find_decoder(header, out)
    if decode is None or not decode(data, out):
        out[...] = _decode_with_pillow(data, header, where)


def find_decoder(header: ImageHeader, out: NDArray[Any]) -> Callable[[Buffer, NDArray[Any]], bool] | None:
    """Return a fast decoder for JPEGs of a header into `out` or its rows; it returns False if Pillow must decode.

    None for other images, and if simplejpeg is not installed.
    """
    simplejpeg = find_simplejpeg() if header.encoding == "jpeg" else None
    if simplejpeg is None or not out.flags.c_contiguous or out.dtype != np.uint8 or out.shape[-3:] != header.shape:
        return None
    decode, colors = simplejpeg.decode_jpeg, "RGB" if header.shape[2] == 3 else "GRAY"

    def decode_quickly(data: Buffer, pixels: NDArray[Any]) -> bool:
        try:
            decode(data, colors, False, False, buffer=pixels)
        except ValueError:
            return False
        return True

    return decode_quickly


def encode_image(
    array: Any, encoding: str = "jpeg", *, quality: int = DEFAULT_QUALITY, by_pillow: bool = False
) -> bytes:
    """Encode an image [H, W, C] or [H, W], uint8, or uint16 gray for PNG; quality 1 to 100 is that of JPEG.

    JPEG has 4:2:0 chroma subsampling. by_pillow: encode with Pillow, which gives the same bytes as OpenCV. Raises
    EpisodeError for arrays that the encoding does not support.
    """
    pixels = np.asarray(array)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    channels = {"jpeg": (1, 3), "png": (1, 2, 3, 4)}.get(encoding)
    if channels is None:
        raise EpisodeError(f"image: expected one of the encodings {', '.join(ENCODINGS)}, found {encoding!r}")
    is_uint16 = encoding == "png" and pixels.dtype == np.uint16 and pixels.shape[2:] == (1,)
    if not is_uint16 and (pixels.ndim != 3 or pixels.dtype != np.uint8 or pixels.shape[2] not in channels):
        expected = f"uint8 [H, W, C] with C one of {', '.join(map(str, channels))}"
        raise EpisodeError(f"{encoding} image: expected {expected}, found {pixels.dtype} {list(pixels.shape)}")
    if encoding == "jpeg" and not 1 <= (integer(quality) or 0) <= 100:
        raise EpisodeError(f"jpeg image: expected a quality from 1 to 100, found {quality!r}")
    check_pixels(pixels.shape[1], pixels.shape[0], f"{encoding} image")
    pixels = np.ascontiguousarray(pixels)
    simplejpeg = find_simplejpeg() if encoding == "jpeg" and not by_pillow else None
    if simplejpeg is not None:
        colors = "RGB" if pixels.shape[2] == 3 else "GRAY"
        encoded: bytes = simplejpeg.encode_jpeg(pixels, quality, colors, "420" if colors == "RGB" else "Gray", False)
        return encoded
    return _encode_with_pillow(pixels, encoding, quality)


@lru_cache
def find_simplejpeg() -> ModuleType | None:
    """Return the module simplejpeg; None if it is not installed: Pillow gives the same values, more slowly."""
    try:
        import simplejpeg  # noqa: PLC0415  (optional)
    except ImportError:
        return None
    module: ModuleType = simplejpeg
    return module


def _decode_with_pillow(data: Buffer, header: ImageHeader, where: str) -> NDArray[Any]:
    pillow = import_library("PIL.Image", "images")
    try:
        with pillow.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            mode = _MODES[header.shape[2]]
            converted = image if header.dtype == np.uint16 or image.mode == mode else image.convert(mode)
            pixels = np.asarray(converted)
    except _PILLOW_ERRORS as error:
        raise CodecError(f"{where}: the {header.encoding.upper()} cannot be decoded: {error}") from error
    return pixels.reshape(header.shape)


def _encode_with_pillow(pixels: NDArray[Any], encoding: str, quality: int) -> bytes:
    pillow = import_library("PIL.Image", "images")
    file = io.BytesIO()
    image = pillow.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    if encoding == "jpeg":
        image.save(file, "JPEG", quality=quality, subsampling="4:2:0")
    else:
        image.save(file, "PNG", compress_level=_PNG_LEVEL_16 if pixels.dtype == np.uint16 else _PNG_LEVEL)
    return file.getvalue()
