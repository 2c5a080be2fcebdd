"""Reads one picture that a user gives: a file of any common format, bytes, or an array, as RGB of a bounded size."""

from __future__ import annotations

import io
import os
import struct
import warnings
import zlib
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.schemes import place_of
from wshard.core.media.image_header import MAX_PIXELS, check_pixels
from wshard.core.plugins import import_library
from wshard.errors import CodecError, LimitError, WShardError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SIDE: Final = 1024
"""Larger pictures are reduced: no encoder of frames takes more."""

_SUFFIXES: Final = {
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".png": "PNG",
    ".webp": "WEBP",
    ".gif": "GIF",
    ".bmp": "BMP",
}
"""How files of each format end, by Pillow's name of the format."""
_MAX_SIZE: Final = 1 << 27  # bytes of a file
_MAX_SCANS: Final = 500  # of a progressive JPEG: each costs a pass over the whole picture
_SCAN: Final = b"\xff\xda"
_ERRORS: Final = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, struct.error, zlib.error)
_EXPECTED: Final = "expected a picture (JPEG, PNG, WebP, GIF or BMP)"


def is_picture_name(name: str) -> bool:
    """Return whether a file of this name ends like a picture that read_picture reads."""
    return PurePath(name).suffix.lower() in _SUFFIXES


def read_picture(source: Any) -> NDArray[np.uint8]:
    """Return a picture as uint8 [H, W, 3]: of a path or a URI, the bytes of a file, or an array [H, W] or [H, W, C].

    It is turned as its EXIF data say; of an animation it is the first frame; gray with 16 bits is reduced to 8,
    transparency is dropped. Raises CodecError for anything but a picture, LimitError above MAX_PIXELS,
    FileNotFoundError, MissingExtraError without Pillow, UnknownSchemeError.
    """
    if isinstance(source, str | os.PathLike):
        path = place_of(source)
        if not path.is_file():
            if path.exists():  # a folder, or a pipe, which would be waited for
                raise CodecError(f"{path}: {_EXPECTED}, found no regular file")
            raise FileNotFoundError(f"{path}: {_EXPECTED}, found no such file")
        with path.open() as file:
            return _decode(file.read(_MAX_SIZE + 1), str(path))
    if isinstance(source, bytes | bytearray | memoryview):
        return _decode(bytes(source[: _MAX_SIZE + 1]), "picture")
    return _as_rgb(np.asarray(source))


def _as_rgb(array: NDArray[Any]) -> NDArray[np.uint8]:
    planes = array[..., None] if array.ndim == 2 else array
    if planes.ndim != 3 or planes.shape[2] not in {1, 3, 4} or planes.dtype != np.uint8:
        raise CodecError(f"picture: expected uint8 [H, W] or [H, W, 1, 3 or 4], found {array.dtype} {[*array.shape]}")
    check_pixels(planes.shape[1], planes.shape[0], "picture")
    pixels: NDArray[np.uint8] = planes[..., :3] if planes.shape[2] > 1 else np.repeat(planes, 3, axis=2)
    return pixels


def _decode(data: bytes, where: str) -> NDArray[np.uint8]:
    if len(data) > _MAX_SIZE:
        raise LimitError(f"{where}: expected a picture of at most {_MAX_SIZE} bytes")
    pillow, turning = import_library("PIL.Image", "images"), import_library("PIL.ImageOps", "images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, which are limited below, and of odd metadata
            with pillow.open(io.BytesIO(data), formats=[*dict.fromkeys(_SUFFIXES.values())]) as image:
                check_pixels(image.width, image.height, where)
                if image.format == "JPEG" and data.count(_SCAN) > _MAX_SCANS:
                    raise LimitError(f"{where}: expected a JPEG of at most {_MAX_SCANS} scans")
                image.draft(None, (MAX_SIDE, MAX_SIDE))
                small = image.reduce(max(1, max(image.size) // MAX_SIDE)) if image.mode != "P" else image
                turned = turning.exif_transpose(small)
                if turned.mode.startswith(("I", "F")):
                    return _as_rgb((np.asarray(turned).astype(np.float64).clip(0, 65535) / 257).astype(np.uint8))
                pixels: NDArray[np.uint8] = np.asarray(turned.convert("RGBA" if turned.mode == "P" else "RGB"))
    except WShardError:
        raise
    except pillow.DecompressionBombError:
        raise LimitError(f"{where}: expected at most {MAX_PIXELS} pixels, found more") from None
    except pillow.UnidentifiedImageError:
        raise CodecError(f"{where}: {_EXPECTED}, found {len(data)} bytes of none of these") from None
    except _ERRORS as error:
        raise CodecError(f"{where}: {_EXPECTED}, found one that cannot be decoded: {error}") from error
    return _as_rgb(pixels)
