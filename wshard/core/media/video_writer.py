"""Write camera frames as an MP4 of constant rate, in their original size."""

from __future__ import annotations

import contextlib
import itertools
import os
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.arguments import finite_number
from wshard.core.container.atomic_write import publish
from wshard.core.media.image_header import check_pixels
from wshard.core.media.open_video import import_av
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

DEFAULT_OPTIONS: Final = {"g": "10"}
"""A key frame every 10 frames: reading any frame decodes ten at most."""

AV1_OPTIONS: Final = {"preset": "8", "crf": "35"}

_THREADS: Final = 4
"""Fixed, as the encoded bytes depend on the number of threads, by default that of the machine's cores."""

_LOSSLESS: Final = ("libx264rgb", "rgb24", {"qp": "0"})


def encode_video(
    frames: Iterable[Any],
    target: str | os.PathLike[str] | IO[bytes],
    *,
    fps: float,
    codec: str = "libx264",
    options: Mapping[str, str] | None = None,
    lossless: bool = False,
) -> int:
    """Write frames [H, W, C], uint8 with C 1 or 3, as an MP4; returns their number.

    Frame t is shown at t / fps seconds. Frames are never resized: those of even width and height are stored as yuv420p,
    others as yuv444p (H.264 High 4:4:4), and those of one channel as gray. lossless: store RGB losslessly with
    libx264rgb. A file at a path is written atomically; a file object must be seekable. options: those of the codec,
    such as {"crf": "18", "g": "2"}. Raises EpisodeError for frames or options that cannot be encoded,
    MissingExtraError.
    """
    rate = rate_of(fps)
    arrays = iter(frames)
    first = check_frame(next(arrays, None), None, 0)
    settings = dict(DEFAULT_OPTIONS) | dict(options or {})
    stored_format = pixel_format(first.shape)
    if lossless and first.shape[2] == 3:
        codec, stored_format, extra = _LOSSLESS
        settings |= extra
    elif lossless:
        settings["qp"] = "0"
    stream = (codec, stored_format, rate, settings)
    chained = itertools.chain([first], arrays)
    if isinstance(target, str | os.PathLike):
        with publish(target) as file:
            return _write(file, chained, first.shape, stream)
    return _write(target, chained, first.shape, stream)


def rate_of(fps: float) -> Fraction:
    """Return frames per second as a fraction; raises EpisodeError unless they are more than 0."""
    rate = finite_number(fps, "video: fps", EpisodeError)
    if rate <= 0:
        raise EpisodeError(f"video: expected fps > 0, found {fps!r}")
    return Fraction(rate).limit_denominator(1_000_000)


@contextlib.contextmanager
def restrain_encoder() -> Iterator[None]:
    """Open an encoder without lasting effects.

    SVT-AV1 prints its settings, unless SVT_LOG says otherwise; for root, it makes the thread that opens it, and its own
    threads, real-time ones, which leave no core to other processes.
    """
    os.environ.setdefault("SVT_LOG", "1")  # errors alone
    if not hasattr(os, "sched_getscheduler"):  # not on Linux
        yield
        return
    policy, parameters, before = os.sched_getscheduler(0), os.sched_getparam(0), _threads()
    try:
        yield
    finally:
        if os.sched_getscheduler(0) != policy:
            for thread in {0} | (_threads() - before):
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    os.sched_setscheduler(thread, policy, parameters)


def _threads() -> set[int]:
    with contextlib.suppress(FileNotFoundError):
        return {int(thread.name) for thread in Path("/proc/self/task").iterdir()}
    return set()


def _write(
    file: IO[bytes],
    frames: Iterable[Any],
    shape: tuple[int, ...],
    stream: tuple[str, str, Fraction, dict[str, str]],
) -> int:
    av = import_av()
    codec, stored_format, rate, options = stream
    count = 0
    try:
        with av.open(file, "w", format="mp4") as container:
            video = container.add_stream(codec, rate=rate, options=options)
            video.height, video.width, video.pix_fmt = shape[0], shape[1], stored_format
            video.codec_context.time_base = 1 / rate
            video.codec_context.thread_count, video.codec_context.thread_type = _THREADS, "FRAME"
            with restrain_encoder():
                video.codec_context.open()
            for count, image in enumerate(frames, 1):
                frame = to_frame(check_frame(image, shape, count - 1))
                frame.pts, frame.time_base = count - 1, 1 / rate
                container.mux(video.encode(frame))
            container.mux(video.encode(None))
    except (av.FFmpegError, ValueError) as error:
        if isinstance(error, EpisodeError):
            raise
        size = "x".join(map(str, shape))
        raise EpisodeError(f"video: {codec} cannot encode frames {size} as {stored_format}: {error}") from error
    return count


def to_frame(pixels: NDArray[np.uint8]) -> Any:
    """Return pixels [H, W, C] as a frame of the library."""
    av, gray = import_av(), pixels.shape[2] == 1
    return av.VideoFrame.from_ndarray(pixels[..., 0] if gray else pixels, "gray" if gray else "rgb24")


def check_frame(frame: Any, shape: tuple[int, ...] | None, number: int) -> NDArray[np.uint8]:
    """Return a frame as pixels [H, W, C] of this shape; raises EpisodeError."""
    if frame is None:
        raise EpisodeError("video: expected at least one frame, found none")
    pixels = np.ascontiguousarray(frame)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in {1, 3}:
        expected = "uint8 [H, W, C] with C 1 or 3"
        raise EpisodeError(f"video: frame {number}: expected {expected}, found {pixels.dtype} {list(pixels.shape)}")
    if shape is not None and pixels.shape != shape:
        raise EpisodeError(f"video: frame {number}: expected {list(shape)}, found {list(pixels.shape)}")
    check_pixels(pixels.shape[1], pixels.shape[0], f"video: frame {number}")
    return pixels


def pixel_format(shape: tuple[int, ...]) -> str:
    """Return how frames of a shape are stored, in their size."""
    if shape[2] == 1:
        return "gray"
    return "yuv444p" if shape[0] % 2 or shape[1] % 2 else "yuv420p"
