"""Timesteps of image lanes as JPEG, made on the fly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.media.frames import ImageFrames
from wshard.core.media.images import encode_image
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from catalog.records import LaneDefinition
    from wshard.core.episode.protocol import EpisodeReader

_QUALITY: Final = 85


def picture_axes(shape: Sequence[int]) -> str:
    """Return the image layout of a timestep with this shape, "HW", "HWC" or "CHW"; "" if it is not an image."""
    if len(shape) == 2:
        return "HW" if min(shape) >= 8 else ""
    if len(shape) != 3:
        return ""
    return "HWC" if shape[-1] in (1, 3, 4) and min(shape[:2]) >= 8 else "CHW" if shape[0] in (1, 3, 4) else ""


def is_camera(lane: LaneDefinition) -> bool:
    """Return whether a lane holds camera frames: observed images of bytes, not depths, with planes first or last."""
    return lane.name.startswith("signal/") and lane.dtype == "u8" and picture_axes(lane.shape) != ""


def order_pictures(lanes: Iterable[LaneDefinition]) -> list[str]:
    """Return the names of the lanes of images, cameras before others, such as depths."""
    return [lane.name for lane in sorted(lanes, key=lambda lane: not is_camera(lane)) if picture_axes(lane.shape)]


def planes_last(frames: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """Return timesteps [n, *shape] of an image lane as [n, H, W] or [n, H, W, planes]."""
    return np.moveaxis(frames, 1, -1) if picture_axes(shape) == "CHW" else frames


def read_picture(file: EpisodeReader, lane: str, step: int, *, width: int | None = None) -> bytes:
    """Return a timestep of an image lane as JPEG, about `width` wide if it is wider.

    Raises EntryNotFoundError, QueryError for a lane that is not an image, StepError, MissingExtraError.
    """
    view = file.lane_view(lane)
    axes = picture_axes(view.shape[1:])
    if not axes:
        raise QueryError(f"{lane}: expected a lane of images, found {list(view.shape[1:])} per timestep")
    frames = file.encoded(lane)
    if isinstance(frames, ImageFrames) and frames.encoding == "jpeg" and width is None:
        return bytes(frames.image(range(len(view))[step]))  # as stored in the file
    return encode_picture(np.asarray(view[step]), axes, width=width)


def encode_picture(picture: NDArray[Any], axes: str, *, width: int | None = None) -> bytes:
    """Return a picture as JPEG; other numbers than bytes are rescaled from their range to 0 to 255."""
    pixels = _planes_last(picture, axes)
    if width is not None and pixels.shape[1] >= 2 * width:
        stride = pixels.shape[1] // width
        pixels = pixels[::stride, ::stride]
    return encode_image(_as_bytes(pixels), "jpeg", quality=_QUALITY)


def as_rgb(picture: NDArray[Any], shape: Sequence[int]) -> NDArray[np.uint8]:
    """Return a timestep of an image lane, of this shape, as [H, W, 3]."""
    pixels = _as_bytes(_planes_last(picture, picture_axes(shape)))
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def _planes_last(picture: NDArray[Any], axes: str) -> NDArray[Any]:
    """Return [H, W, 1 or 3]: alpha is dropped."""
    by_axes = {
        "HW": picture[..., None] if axes == "HW" else picture,
        "HWC": picture,
        "CHW": np.moveaxis(picture, 0, -1),
    }
    return by_axes[axes][..., :3] if by_axes[axes].shape[-1] == 4 else by_axes[axes]


def _as_bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    numbers = np.nan_to_num(pixels.astype(np.float32), posinf=0.0, neginf=0.0)
    low, high = float(numbers.min(initial=0.0)), float(numbers.max(initial=0.0))
    spread: NDArray[np.uint8] = ((numbers - low) * (255.0 / max(high - low, 1e-12))).astype(np.uint8)
    return spread
