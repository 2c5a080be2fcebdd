"""One lane of an open episode as a lazy array: only the bytes of the requested timesteps are read."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.container.layout import ENTRY_ZSTD
from wshard.core.container.seekable_zstd import read_frame, read_table
from wshard.core.episode.lanes import lane_shape, view_typed
from wshard.core.files.byte_source import OfOneProcess
from wshard.errors import StepError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.container.layout import Buffer
    from wshard.core.container.reader import ShardReader
    from wshard.core.container.seekable_zstd import SeekTable
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.types import Array


class LazyLane(OfOneProcess, ABC):
    """A lane [T, *shape] that is read on demand: `view[100:116]`, `view[-1]`, `view[::10]`, `np.asarray(view)`.

    A subclass defines how timesteps are read; `where` is its name in errors.
    """

    def __init__(self, declaration: Declaration, shape: tuple[int, ...], where: str) -> None:
        self.declaration = declaration
        self.shape = shape
        self.dtype: np.dtype[Any] = declaration.dtype.numpy_dtype
        self.where = f"{where}: block {declaration.block!r}"

    @abstractmethod
    def _rows(self, start: int, stop: int) -> Array:
        """Return the timesteps [start, stop) as an array [stop - start, *shape]; the caller has checked the range."""

    def mapped(self) -> Array | None:
        """Return the whole lane as a view of its file, without verifying a checksum; None if there is no such view."""
        return None

    @property
    def ndim(self) -> int:
        """Number of axes, including time."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.declaration.block!r}, {self.declaration.dtype.value} {list(self.shape)})"

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Array:  # noqa: FBT001  (numpy's protocol)
        return np.array(self[:], dtype, copy=copy)

    def __iter__(self) -> Iterator[Any]:
        return (self[step] for step in range(len(self)))

    def __getitem__(self, key: object) -> Any:
        """Return a timestep [*shape], or the timesteps of a slice; further indices apply to the axes after time.

        Raises StepError (an IndexError), ChecksumError, CodecError.
        """
        if isinstance(key, tuple) and key and key[0] is not Ellipsis:
            rows = self[key[0]]
            return rows[(slice(None), *key[1:]) if isinstance(key[0], slice) else key[1:]]
        if isinstance(key, slice):
            return self._span(*key.indices(len(self)))
        try:
            step = operator.index(key)  # type: ignore[arg-type]
        except TypeError:
            raise StepError(
                f"{self.where}: expected an int or a slice of timesteps, found {key!r}: "
                f"np.asarray of the lane takes every other index"
            ) from None
        if not -len(self) <= step < len(self):
            raise StepError(f"{self.where}: expected a timestep below {len(self)}, found {step}")
        return self._rows(step % len(self), step % len(self) + 1)[0]

    def _span(self, start: int, stop: int, stride: int) -> Array:
        steps = range(start, stop, stride)
        if not steps:
            return self._rows(0, 0)
        return self._rows(min(steps[0], steps[-1]), max(steps[0], steps[-1]) + 1)[::stride]


class LaneView(LazyLane):
    """A lane [T, *shape] of one file, which is read on demand.

    Uncompressed lanes give read-only views of the file and touch no other byte of it; such slices are not verified
    unless verify is True. Lanes written with frame_steps decode the frames that they touch, each with its own checksum.
    Other lanes are decoded as a whole, once. Whole lanes are always verified, once per file handle.
    """

    def __init__(
        self, shard: ShardReader, declaration: Declaration, length: int | None, *, verify: bool = False
    ) -> None:
        entry = shard.entry(declaration.block)
        shape = lane_shape(declaration, entry.orig_size, length, shard.where)
        super().__init__(declaration, shape, shard.where)
        self._size = entry.orig_size
        self._shard = shard
        self._verify = verify
        codec = shard.codec(declaration.block)
        self._raw = not codec and entry.disk_size == entry.orig_size
        framed = codec == ENTRY_ZSTD
        self._table = read_table(self._read_stored, entry.disk_size, entry.orig_size) if framed else None
        self._frame: tuple[int, Buffer] = (-1, b"")
        self._whole: Buffer | None = None

    def _span(self, start: int, stop: int, stride: int) -> Array:
        steps = range(start, stop, stride)
        if steps and self._table is not None and abs(stride) > 1 and self._size:
            return self._gather(steps)
        return super()._span(start, stop, stride)

    def _gather(self, steps: range) -> Array:
        """Copy separate timesteps one by one, without reading the frames between them."""
        rows: Array = np.empty((len(steps), *self.shape[1:]), self.dtype)
        for row, step in enumerate(steps):
            rows[row] = self._rows(step, step + 1)[0]
        rows.flags.writeable = False
        return rows

    def mapped(self) -> Array | None:
        """Return the whole of an uncompressed lane."""
        if not self._raw or not self._size:
            return None
        return view_typed(self._read_stored(0, self._size), self.declaration.dtype, self.shape)

    def _rows(self, start: int, stop: int) -> Array:
        size = self.declaration.step_size
        data = self._bytes(start * size, stop * size)
        return view_typed(data, self.declaration.dtype, (stop - start, *self.shape[1:]))

    def _bytes(self, start: int, stop: int) -> Buffer:
        if start == stop:
            return b""
        if self._whole is None:
            partial = stop - start < self._size
            if partial and self._table is not None:
                return self._read_framed(self._table, start, stop)
            if partial and self._raw and not self._verify:
                return self._read_stored(start, stop)
            self._whole = self._shard.block(self.declaration.block)
        return memoryview(self._whole)[start:stop]

    def _read_stored(self, start: int, stop: int) -> Buffer:
        return self._shard.stored(self.declaration.block, start, stop)

    def _read_framed(self, table: SeekTable, start: int, stop: int) -> Buffer:
        frame_numbers = table.frames(start, stop)
        frames = [self._read_frame(table, number) for number in frame_numbers]
        first_byte = int(table.decoded[frame_numbers[0]])
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        return memoryview(data)[start - first_byte : stop - first_byte]

    def _read_frame(self, table: SeekTable, number: int) -> Buffer:
        """Decode a frame; the last one is cached, since neighbouring timesteps are often read one by one."""
        cached_number, data = self._frame
        if cached_number != number:
            data = read_frame(self._read_stored, table, number, self.where)
            self._frame = (number, data)
        return data
