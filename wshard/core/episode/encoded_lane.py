"""Blocks of encoded camera frames: their bytes, their frames, and lanes that decode on demand.

Rules by number: FORMAT.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from wshard.core.container.layout import IMAGE_OFFSET
from wshard.core.episode.lane_view import LazyLane
from wshard.core.files.range_file import BufferOpener, RangeFile
from wshard.core.media.chained_frames import ChainedFrames
from wshard.core.media.frames import ImageFrames
from wshard.core.media.video_copy import copy_video
from wshard.core.media.video_frames import VideoFrames
from wshard.errors import EpisodeError, LaneError, StepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wshard.core.container.layout import Buffer
    from wshard.core.container.reader import ShardReader
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array

_OFFSETS = np.dtype("<u8")


# ---- writing -------------------------------------------------------------------------------------------------------


def pack_frames(frames: EncodedFrames, where: str) -> tuple[Sequence[Buffer], int]:
    """Return the bytes of a block, and the number of its first frame in a video; nothing is re-encoded.

    Raises EpisodeError for parts of several videos, and the errors of reading a video.
    """
    if isinstance(frames, ImageFrames):
        images = [frames.image(step) for step in range(frames.length)]
        return (image_table(map(len, images)), *images), 0
    if isinstance(frames, VideoFrames):
        data, first = copy_video(frames)
        return (data,), first
    found = "several videos" if isinstance(frames, ChainedFrames) else type(frames).__name__
    raise EpisodeError(
        f"{where}: expected images or one video, found {found}: save its chunks, or set `data` to its own array"
    )


def image_table(sizes: Iterable[int]) -> bytes:
    """Return the places of images of these sizes, which stand before them in a block."""
    ends = np.fromiter(sizes, _OFFSETS)
    return np.cumsum(np.append(_OFFSETS.type(IMAGE_OFFSET.size * (len(ends) + 1)), ends), dtype=_OFFSETS).tobytes()


# ---- reading -------------------------------------------------------------------------------------------------------


class StoredImages(Sequence["Buffer"]):
    """The images of a block, read on demand; `read` returns bytes [start, stop) of the block."""

    def __init__(self, read: Callable[[int, int], Buffer], size: int, count: int, where: str) -> None:
        self._read = read
        self._size = size
        self._count = count
        self._where = where

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, step: int) -> Buffer: ...
    @overload
    def __getitem__(self, step: slice) -> list[Buffer]: ...
    def __getitem__(self, step: int | slice) -> Buffer | list[Buffer]:
        """Return an image, or those of a slice, which are read together."""
        if isinstance(step, slice):
            steps = range(self._count)[step]
            return self._images(steps.start, steps.stop)
        if not -self._count <= step < self._count:
            raise StepError(f"{self._where}: expected an image below {self._count}, found {step}")
        return self._images(step % self._count, step % self._count + 1)[0]

    def _images(self, start: int, stop: int) -> list[Buffer]:
        width = IMAGE_OFFSET.size
        table_size = width * (self._count + 1)
        if self._size < table_size:
            raise LaneError(f"{self._where}: expected the places of {self._count} images, found {self._size} bytes")
        offsets = np.frombuffer(self._read(width * start, width * (stop + 1)), _OFFSETS).tolist()
        ends = {0: table_size, self._count: self._size}
        wrong = any(offsets[step - start] != ends[step] for step in ends if start <= step <= stop)
        if wrong or not table_size <= offsets[0] <= offsets[-1] <= self._size or sorted(offsets) != offsets:
            raise LaneError(
                f"{self._where}: expected ascending places of images {start} to {stop - 1} "
                f"from {table_size} to {self._size}"
            )
        data = memoryview(self._read(offsets[0], offsets[-1]))
        return [data[offset - offsets[0] : end - offsets[0]] for offset, end in pairwise(offsets)]


def frames_of(lane: Declaration, data: Buffer, length: int, where: str) -> EncodedFrames:
    """Return the frames of a whole block; raises LaneError where its table of places is wrong."""
    where = f"{where}: block {lane.block!r}"
    if lane.encoding == "mp4":
        return _video(lane, BufferOpener(data), length, where)
    view = memoryview(data)
    images = StoredImages(lambda start, stop: view[start:stop], len(view), length, where)
    return image_frames(lane, images[0:length], where)


def stored_frames(shard: ShardReader, lane: Declaration, length: int) -> EncodedFrames:
    """Return the frames of a block, which are read on demand.

    Bytes of an uncompressed block are not compared with its checksum, which covers the whole block.
    """
    where, block = f"{shard.where}: block {lane.block!r}", lane.block
    if shard.codec(block):
        return frames_of(lane, shard.block(block), length, shard.where)
    size = shard.entry(block).disk_size

    def read(start: int, stop: int) -> Buffer:
        return shard.stored(block, start, stop)

    if lane.encoding == "mp4":
        return _video(lane, lambda: RangeFile(read, size), length, where)
    return image_frames(lane, StoredImages(read, size, length, where), where)


def in_memory(frames: EncodedFrames, start: int, stop: int) -> EncodedFrames:
    """Return the frames [start, stop); the bytes of images stay available when the file is closed."""
    part = frames.slice(start, stop)
    if not isinstance(part, ImageFrames):
        return part
    if isinstance(part.images, StoredImages):
        images: Sequence[Buffer] = part.images[part.first : part.first + part.length]
    else:
        images = [part.image(step) for step in range(part.length)]
    return replace(part, images=images, first=0, count=None)


def image_frames(lane: Declaration, images: Sequence[Buffer], where: str) -> ImageFrames:
    """Return images as the frames that a lane declares."""
    height, width, channels = lane.shape
    return ImageFrames(
        lane.encoding,
        images,
        frame_shape=(height, width, channels),
        frame_dtype=lane.dtype.numpy_dtype,
        where=where,
    )


def _video(lane: Declaration, source: Any, length: int, where: str) -> VideoFrames:
    height, width, channels = lane.shape
    return VideoFrames(
        source,
        count=length,
        first=lane.first_frame,
        frame_shape=(height, width, channels),
        frame_dtype=lane.dtype.numpy_dtype,
        where=where,
    )


class EncodedLane(LazyLane):
    """A lane of encoded frames, which are read and decoded on demand.

    verify: compare the block with its checksum first, which reads all of it.
    """

    def __init__(
        self, shard: ShardReader, declaration: Declaration, length: int | None, *, verify: bool = False
    ) -> None:
        super().__init__(declaration, (length or 0, *declaration.shape), shard.where)
        self.frames = stored_frames(shard, declaration, length or 0)
        self._shard = shard
        self._verify = verify

    def part(self, start: int, stop: int) -> EncodedFrames:
        """Return the timesteps [start, stop) as frames that stay available when the file is closed."""
        return in_memory(self.frames if isinstance(self.frames, ImageFrames) else self._mapped, start, stop)

    @cached_property
    def _mapped(self) -> EncodedFrames:
        """The frames of a video in memory, or memory-mapped: of a large file nothing is read yet."""
        if not isinstance(self.frames, VideoFrames) or isinstance(self.frames.source, BufferOpener):
            return self.frames
        return replace(self.frames, source=BufferOpener(self._shard.stored(self.declaration.block)))

    def stored_bytes(self) -> Buffer:
        """Return the bytes of the block as stored, without verifying a checksum."""
        return self._shard.stored(self.declaration.block)

    def _span(self, start: int, stop: int, stride: int) -> Array:
        steps = range(start, stop, stride)
        if len(steps) < 2 or abs(stride) == 1:
            return super()._span(start, stop, stride)
        rows: Array = np.empty((len(steps), *self.shape[1:]), self.dtype)
        for row, step in enumerate(steps):
            rows[row] = self._rows(step, step + 1)[0]
        rows.flags.writeable = False
        return rows

    def _rows(self, start: int, stop: int) -> Array:
        block = self.declaration.block
        if self._verify or stop - start == len(self):
            self._shard.block(block)
        else:
            self._shard.stored(block, 0, 0)  # an open video would go on when the file is closed
        rows = self.frames.decode(start, stop)
        rows.flags.writeable = False
        return rows
