"""Encode an episode's images for samples, as JPEG, and depth maps as PNG; once each, also if many samples use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.media.frames import ImageFrames
from wshard.core.media.image_header import read_image_header
from wshard.core.media.images import decode_image, encode_image
from wshard.errors import MissingFileError
from wshard.training.webdataset.resize import resize_lanczos, resize_nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from wshard.core.episode.protocol import EpisodeReader
    from wshard.training.webdataset.options import ShardifyOptions

_BATCH_SIZE: Final = 16  # frames that are decoded together


def read_frames(reader: EpisodeReader, block: str, steps: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Yield each timestep with its frame: bytes of an image file, pixels of other lanes, None if a file is missing."""
    frames = reader.encoded(block)
    if isinstance(frames, ImageFrames):
        for step in steps:
            yield step, _image(frames, step)
        return
    view = reader.lane_view(block)
    for run in _split_runs(steps):
        try:
            yield from zip(run, view[run[0] : run[-1] + 1], strict=True)
        except MissingFileError:
            for step in run:
                try:
                    yield step, view[step : step + 1][0]
                except MissingFileError:
                    yield step, None


def as_jpeg(frame: Any, options: ShardifyOptions, where: str) -> bytes:
    """Return a frame as JPEG of the requested size; a JPEG of that size is returned unchanged."""
    size = options.resize_images_size
    if not isinstance(frame, np.ndarray):
        header = read_image_header(frame, where)
        if header.encoding == "jpeg" and (size is None or header.shape[:2] == size):
            return bytes(frame)
        frame = decode_image(frame, where=where)
    rgb = _as_rgb(frame)
    resized = rgb if size is None else resize_lanczos(rgb, size)
    return encode_image(resized, "jpeg", quality=options.jpeg_quality, by_pillow=True)


def as_depth(frame: Any, options: ShardifyOptions, where: str) -> bytes:
    """Return a map [H, W] or [H, W, 1] of uint16 as PNG."""
    pixels = frame if isinstance(frame, np.ndarray) else decode_image(frame, where=where)
    depth = pixels.reshape(pixels.shape[:2])
    if options.resize_depth and options.resize_images_size is not None:
        depth = resize_nearest(depth, options.resize_images_size)
    return encode_image(depth, "png")


def _image(frames: ImageFrames, step: int) -> Any:
    try:
        return frames.image(step)
    except MissingFileError:
        return None


def _split_runs(steps: Sequence[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for step in steps:
        if run and (step != run[-1] + 1 or len(run) >= _BATCH_SIZE):
            yield run
            run = []
        run.append(step)
    if run:
        yield run


def _as_rgb(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return uint8 [H, W, 3] as OpenCV reads images: gray repeated for all channels, without alpha."""
    uint8_pixels = pixels if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8)
    return uint8_pixels[..., :3] if uint8_pixels.shape[2] > 2 else np.repeat(uint8_pixels[..., :1], 3, axis=2)
