"""Images of an episode as a sample has them: JPEG, and PNG of depth; each is made once, however many samples use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import MissingFileError
from wshard.media.frames import ImageFrames
from wshard.media.image_header import read_image_header
from wshard.media.images import decode_image, encode_image
from wshard.webdataset.resize import resize_lanczos, resize_nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from wshard.episode.protocol import EpisodeReader
    from wshard.webdataset.options import ShardifyOptions

_BATCH_SIZE: Final = 16  # frames that are decoded together


def read_frames(reader: EpisodeReader, block: str, steps: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Yield each timestep with its frame: bytes of an image, pixels of other lanes, None where a file is missing."""
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
    """Return a frame as JPEG of the wanted size; one that is so already stays as it is."""
    size = options.resize_images_size
    if not isinstance(frame, np.ndarray):
        header = read_image_header(frame, where)
        if header.encoding == "jpeg" and (size is None or header.shape[:2] == size):
            return bytes(frame)
        frame = decode_image(frame, where=where)
    colors = _in_color(frame)
    resized = colors if size is None else resize_lanczos(colors, size)
    return encode_image(resized, "jpeg", quality=options.jpeg_quality, by_pillow=True)


def as_depth(frame: Any, options: ShardifyOptions, where: str) -> bytes:
    """Return a map [H, W] or [H, W, 1] of uint16 as PNG."""
    pixels = frame if isinstance(frame, np.ndarray) else decode_image(frame, where=where)
    flat = pixels.reshape(pixels.shape[:2])
    if options.resize_depth and options.resize_images_size is not None:
        flat = resize_nearest(flat, options.resize_images_size)
    return encode_image(flat, "png")


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


def _in_color(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return [H, W, 3] as OpenCV reads images: gray thrice, without what is transparent."""
    depth = pixels if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8)
    return depth[..., :3] if depth.shape[2] > 2 else np.repeat(depth[..., :1], 3, axis=2)
