"""An open MP4 and the position of its decoder: reads frames by time, with as little decoding as possible."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.local import LocalPlace
from wshard.core.files.place import Place
from wshard.core.media.display_matrix import Turn, read_matrices, turn_of
from wshard.core.media.image_header import MAX_PIXELS, check_pixels
from wshard.core.plugins import import_library
from wshard.errors import CodecError, LaneError, MissingFileError

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

VideoSource = Place | str | os.PathLike[str] | bytes | Callable[[], IO[bytes]]
"""The path or place of a file, its bytes, or a function that opens it for seeking and reading."""

TOLERANCE: Final = 1e-4
"""Maximum difference in seconds between the time of a frame and the requested time."""

_SYSTEM_ERRORS: Final = {errno.EACCES, errno.EIO, errno.EMFILE, errno.ENFILE}
_NO_REFERENCES: Final = {"enable_drefs": "0"}  # do not open other files that it refers to
_MAX_TIME: Final = 1e9  # seconds
_LUMA: Final = ("gray", "yuv4", "yuvj4")  # formats whose first plane is luma
_MAX_SKIP: Final = 4  # frames that are decoded rather than skipped by seeking


def video_place(source: Place | str | os.PathLike[str]) -> Place:
    """Return the place of a file; texts are paths: of other schemes, only a place is opened."""
    return source if isinstance(source, Place) else LocalPlace(os.fspath(source))


def import_av() -> ModuleType:
    """Return PyAV; raises MissingExtraError."""
    module: ModuleType = import_library("av", "video")
    return module


@contextlib.contextmanager
def translate_errors(where: str) -> Iterator[None]:
    """Translate errors of the library: FormatError for invalid bytes, MissingFileError for a missing file."""
    av = import_av()
    try:
        yield
    except FileNotFoundError as error:
        raise MissingFileError.at(where, f"{where}: expected a video file, found none") from error
    except av.FFmpegError as error:
        if error.errno in _SYSTEM_ERRORS:
            raise
        raise CodecError(f"{where}: the video cannot be decoded: {error.strerror or error}") from error
    except av.codec.codec.UnknownCodecError as error:
        raise CodecError(f"{where}: expected a codec that the installed PyAV has, found {error}") from error


class OpenVideo:
    """An open video, used by one thread at a time. It starts no threads, as they would not survive a fork."""

    def __init__(self, source: VideoSource, where: str) -> None:
        """Open the file and read its header. Raises MissingFileError, CodecError, LimitError, MissingExtraError."""
        av = import_av()
        self.where = where
        self._source = source  # keeps it alive, as pools use its id as a key
        self._file: IO[bytes] | None = None
        self._frames: Iterator[Any] | None = None
        self._last: Any = None
        if isinstance(source, bytes):
            self._file = io.BytesIO(source)
        elif callable(source):
            self._file = source()
        else:
            place = video_place(source)
            with translate_errors(where):
                opened = place.open()  # here, too: the library would wait for a pipe
            if isinstance(place, LocalPlace):
                with opened:
                    matrices = read_matrices(opened)
                file: Any = f"file:{place.uri}"  # no other protocol, such as http:
            else:
                self._file = opened
        if self._file is not None:
            matrices, file = read_matrices(self._file), self._file
        limits = {"max_pixels": str(MAX_PIXELS), "threads": "1"}
        try:
            with translate_errors(where):
                # One format and protocol only: other formats can refer to further files.
                self._container = av.open(
                    file, format="mp4", options=limits, container_options=_NO_REFERENCES, metadata_errors="replace"
                )
            self._stream = _video_stream(self._container, where)
            codec = self._stream.codec_context
            check_pixels(codec.width, codec.height, where)
            self._turn = turn_of(matrices.get(self._stream.id), where)
        except BaseException:
            self.close()
            raise
        codec.thread_count, codec.options = 1, limits
        self._convert = av.video.reformatter.VideoReformatter()
        self._base = self._stream.time_base
        is_gray = codec.pix_fmt is not None and codec.pix_fmt.startswith("gray")
        is_uint16 = is_gray and codec.pix_fmt != "gray"
        self._size = codec.height, codec.width
        self.shape = (*(self._size[::-1] if self._turn.exchange else self._size), 1 if is_gray else 3)
        self.dtype = np.dtype("<u2" if is_uint16 else np.uint8)
        rate = self._stream.average_rate
        self._step = max(1, round(1 / (rate * self._base))) if rate else 1

    def close(self) -> None:
        """Close the file."""
        if hasattr(self, "_container"):
            self._container.close()
        if self._file is not None:
            self._file.close()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self._container.size)

    @property
    def stream(self) -> Any:
        """The library's stream."""
        return self._stream

    def read_file(self) -> bytes:
        """Return the bytes of the file."""
        if isinstance(self._source, bytes):
            return self._source
        with self._source() if callable(self._source) else video_place(self._source).open() as file:
            return file.read()

    @cached_property
    def times(self) -> NDArray[np.float64]:
        """The time of every frame in seconds, in display order.

        If frames are decoded at regular times, they are assumed to be displayed at such times, which is checked when
        one is read. Otherwise, and after count_frames, the times are those of the packets of the whole file.
        """
        ticks = self._regular_ticks()
        return np.array(self.ticks if ticks is None else ticks, np.float64) * float(self._base)

    def count_frames(self) -> bool:
        """Set the times to those of the packets, which reads the whole file; return True if they changed."""
        previous, self.times = self.times, np.array(self.ticks, np.float64) * float(self._base)
        return not np.array_equal(previous, self.times)

    def _regular_ticks(self) -> NDArray[np.int64] | None:
        start_time, count = self._stream.start_time, self._stream.frames
        entries = [entry.timestamp for entry in self._stream.index_entries if not entry.is_discard]
        steps = np.diff(np.array(entries, np.int64))
        if start_time is None or count != len(entries) or count < 2 or steps[0] <= 0 or (steps != steps[0]).any():
            return None
        ticks: NDArray[np.int64] = start_time + steps[0] * np.arange(count)
        return ticks

    @cached_property
    def ticks(self) -> list[int]:
        """The time of every frame in the file's time base, in display order; raises CodecError for frames without."""
        with translate_errors(self.where):
            self._seek_back(0)
            shown = [one.pts for one in self._container.demux(self._stream) if one.size and not one.is_discard]
        self._frames = self._last = None
        ticks = sorted(tick for tick in shown if tick is not None)
        if (timed := len({*ticks})) < len(shown):
            raise CodecError(f"{self.where}: expected a time of its own for each frame, found {timed} for {len(shown)}")
        return ticks

    def packets_from(self, tick: int) -> list[Any]:
        """Return the packets from the last key frame that is displayed at `tick` or earlier."""
        first, packets = self._seek(tick)
        self._frames = self._last = None
        return [first, *(packet for packet in packets if packet.pts is not None)]

    def read_into(self, out: NDArray[Any], times: NDArray[np.float64]) -> None:
        """Decode the frames at these times, in seconds, into out [n, H, W, C]; raises LaneError, CodecError.

        C may be 1 for any video: the luma plane, in which codecs store gray. Frames are turned as players do; if H and
        W are those of the stored ones only, as lanes of older files state, they are not.
        """
        turn = self._turn if out.shape[1:3] == self.shape[:2] else Turn()
        self.check_frames(out.shape[1:], out.dtype)
        with translate_errors(self.where):
            for number, time in enumerate(times):
                out[number] = turn(self._pixels(self._frame_at(float(time)), out.shape[-1]))

    def check_frames(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Check that frames can be decoded as such; raises LaneError."""
        if (
            dtype != self.dtype
            or shape[:2] not in {self.shape[:2], self._size}
            or shape[2:] not in {self.shape[2:], (1,)}
        ):
            raise LaneError(
                f"{self.where}: expected frames of {dtype} {list(shape)}, found {self.dtype} {list(self.shape)}"
            )

    def _frame_at(self, time: float) -> Any:
        if not abs(time) < _MAX_TIME:
            raise CodecError(f"{self.where}: expected the time of a frame, found {time} s")
        tick = round(time / self._base)
        if self._last is not None and self._is_at(self._last, time):
            return self._last
        if self._frames is None or self._is_far(tick):
            first, packets = self._seek(tick)
            self._frames = self._decode(chain([first], packets))
        nearest = None
        for frame in self._frames:
            if frame.pts is None:
                continue
            self._last = frame
            if self._is_at(frame, time):
                if frame.is_corrupt:
                    raise CodecError(f"{self.where}: the frame at {time:.6f} s is damaged")
                return frame
            nearest = frame
            if frame.pts > tick:
                break
        self._frames = self._last = None
        found = "none" if nearest is None else f"one at {nearest.pts * self._base + 0.0:.6f} s"
        raise CodecError(f"{self.where}: expected a frame within {TOLERANCE} s of {time:.6f} s, found {found}")

    def _decode(self, packets: Iterable[Any]) -> Iterator[Any]:
        """Yield the frames of packets; those before a damaged packet are yielded before its error is raised."""
        av = import_av()  # not where it is caught: a generator may be closed after the imports are gone
        for packet in packets:
            try:
                yield from packet.decode()
            except av.FFmpegError:
                yield from self._stream.codec_context.decode(None)
                self._frames = self._last = None  # read the next frame by seeking
                raise

    def _is_at(self, frame: Any, time: float) -> bool:
        return bool(abs(float(frame.pts * self._base) - time) <= TOLERANCE)

    def _is_far(self, tick: int) -> bool:
        """Return True if seeking is needed, or costs less than decoding the frames in between."""
        if self._last is None or tick <= self._last.pts:
            return True
        if tick - self._last.pts <= _MAX_SKIP * self._step:
            return False
        index = self._stream.index_entries
        entry = index.search_timestamp(tick, backward=True)
        return bool(entry < 0 or index[entry].timestamp > self._last.pts)

    def _seek(self, tick: int) -> tuple[Any, Iterator[Any]]:
        """Seek to the last key frame that is displayed at `tick` or earlier; return its packet, and those after it."""
        seek_tick, last_dts = tick, None
        while True:
            self._seek_back(seek_tick)
            packets = self._container.demux(self._stream)
            first = next(packets, None)
            if first is None:
                raise CodecError(f"{self.where}: expected frames, found a video without any")
            if first.pts is None or first.pts <= tick or first.dts is None or first.dts == last_dts:
                return first, packets
            seek_tick, last_dts = first.dts - 1, first.dts  # decoded before `tick`, but displayed after it

    def _seek_back(self, target: int) -> None:
        self._container.seek(target, stream=self._stream, backward=True)

    def _pixels(self, frame: Any, channels: int) -> NDArray[Any]:
        if (frame.height, frame.width) != self._size:
            raise CodecError(f"{self.where}: expected frames of {self._size}, found {frame.height}, {frame.width}")
        is_uint16 = self.dtype.itemsize == 2
        if channels == 1 and frame.format.name.startswith(_LUMA) and (frame.format.components[0].bits > 8) == is_uint16:
            plane = frame.planes[0]  # unconverted: conversion rescales values of 9 to 16 bits, and the range of gray
            rows = np.frombuffer(plane, self.dtype).reshape(-1, plane.line_size // self.dtype.itemsize)
            return rows[: frame.height, : frame.width, None]
        if is_uint16:
            raise CodecError(f"{self.where}: expected gray frames, found one of {frame.format.name}")
        if channels == 1:
            gray: NDArray[Any] = self._convert.reformat(frame, format="gray", threads=1).to_ndarray()
            return gray[..., None]
        pixels: NDArray[Any] = self._convert.reformat(frame, format="rgb24", threads=1).to_ndarray()
        return pixels


def _video_stream(container: Any, where: str) -> Any:
    videos = container.streams.video
    if not videos:
        raise CodecError(f"{where}: expected a video stream, found {len(container.streams)} others")
    if videos[0].codec_context is None or not videos[0].time_base:
        raise CodecError(f"{where}: expected a video stream that can be decoded, found one of an unknown codec")
    return videos[0]
