"""Detect recordings of an older stream writer with interleaved flushes, and restore them exactly.

That writer appended the rows of all lanes flush by flush, but its index only has the start and total size of each lane.
Every step below is a check: a file that passes all of them has only one interpretation (FORMAT.md, R-1 to R-7).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from wshard.core.container.layout import checksum, round_up
from wshard.core.episode.lanes import DONE, REWARD, TICKS
from wshard.core.episode.meta_reader import META_BLOCKS, Description, read_description
from wshard.errors import FormatError, RepairError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wshard.core.container.layout import Buffer, IndexEntry
    from wshard.core.container.reader import ShardReader

_META_ALIGNMENT: Final = 32
_STEP_LANES: Final = {REWARD: 4, DONE: 1, TICKS: 4}  # bytes per timestep
_MIN_PIECE: Final = 4096  # bytes; smaller pieces are joined, as many views cost more than a copy


@dataclass(frozen=True)
class Flushes:
    """Layout of the lanes of a stream in the file: repeatedly rows_per_flush rows of each in turn."""

    start: int
    length: int
    rows_per_flush: int
    row_sizes: tuple[int, ...]

    def pieces(self, lane: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges [start, stop) of the file that hold the rows of a lane, in order."""
        step_size, preceding_size, row_size = sum(self.row_sizes), sum(self.row_sizes[:lane]), self.row_sizes[lane]
        for first in range(0, self.length, self.rows_per_flush):
            rows = min(self.rows_per_flush, self.length - first)
            start = self.start + first * step_size + rows * preceding_size
            yield start, start + rows * row_size

    @property
    def stop(self) -> int:
        """The offset after the last flush."""
        return self.start + self.length * sum(self.row_sizes)


@dataclass(frozen=True)
class Restored:
    """A restored recording: the contents of its meta blocks, and the rows of each lane as pieces of the file.

    unchecked_from: the first timestep whose rows no checksum covers, as the writer's checksums were of other bytes.
    """

    description: Description
    lanes: Mapping[str, Sequence[Buffer]]
    unchecked_from: int | None


def deinterleave(reader: ShardReader) -> Restored:
    """Restore the lanes of an interleaved stream.

    reader: opened with damaged=True. Raises RepairError if a check fails, since the interpretation is then uncertain.
    """
    where = reader.where
    if reader.outside or reader.header.total_file_size != reader.size:
        raise RepairError(f"{where}: interleaved and cut: expected {reader.header.total_file_size} bytes")
    _check_stored(reader)
    description = read_description({name: reader.block(name) for name in META_BLOCKS if name in reader}, where)
    meta = [entry for entry in reader.entries if entry.name in META_BLOCKS]
    lanes = [entry for entry in reader.entries if entry.disk_size and entry.name not in META_BLOCKS]
    lanes.sort(key=lambda entry: entry.data_offset)
    flushes = _flushes(lanes, description, where)
    meta_start = min((entry.data_offset for entry in meta), default=0)
    if round_up(flushes.stop, _META_ALIGNMENT) != meta_start:
        raise RepairError(
            f"{where}: {flushes.length} timesteps end at offset {flushes.stop}, "
            f"but the following data are at {meta_start}"
        )
    restored = {entry.name: _pieces(reader, flushes, number) for number, entry in enumerate(lanes)}
    if any(bytes(piece).strip(b"\0\1") for piece in restored.get(DONE, ())):
        raise RepairError(f"{where}: lane {DONE!r}: expected only 0 and 1 after putting it in order")
    checked_stop = max(entry.data_offset + entry.disk_size for entry in lanes)
    checked_flushes = (checked_stop - flushes.start) // (flushes.rows_per_flush * sum(flushes.row_sizes))
    checked_rows = checked_flushes * flushes.rows_per_flush
    return Restored(description, restored, checked_rows if checked_stop < flushes.stop else None)


def _check_stored(reader: ShardReader) -> None:
    """Check that every checksum matches the stored bytes: the file is undamaged since it was written."""
    for number, entry in enumerate(reader.entries):
        where = f"{reader.where}: block {entry.name!r}"
        if entry.name in META_BLOCKS:
            try:
                reader.block(number)
            except FormatError as error:
                raise RepairError(f"{where}: interleaved and damaged: {error}") from error
        elif entry.compressed or entry.disk_size != entry.orig_size:
            raise RepairError(f"{where}: interleaved, but compressed: its writer never did that")
        elif checksum(reader.stored(number)) != entry.checksum:
            raise RepairError(f"{where}: interleaved and damaged: the checksum does not match the stored bytes")


def _flushes(lanes: Sequence[IndexEntry], description: Description, where: str) -> Flushes:
    length = description.length or 0
    if len(lanes) < 2:
        raise RepairError(f"{where}: blocks share bytes, but not as interleaved lanes do")
    sizes = tuple(_row_size(entry.name, description, where) for entry in lanes)
    for entry, size in zip(lanes, sizes, strict=True):
        if entry.orig_size != size * length:
            raise RepairError(
                f"{where}: lane {entry.name!r}: expected {size * length} bytes for {length} timesteps, found "
                f"{entry.orig_size}: a channel was missing in some steps"
            )
    rows, remainder = divmod(lanes[1].data_offset - lanes[0].data_offset, sizes[0])
    if remainder or rows < 1:
        raise RepairError(f"{where}: lane {lanes[1].name!r} does not begin after whole rows of {lanes[0].name!r}")
    for size, (left, right) in zip(sizes, pairwise(lanes), strict=False):
        if right.data_offset - left.data_offset != rows * size:
            raise RepairError(
                f"{where}: lane {right.name!r} is expected {rows} rows behind {left.name!r}, at offset "
                f"{left.data_offset + rows * size}, found at {right.data_offset}: a channel was missing in some steps"
            )
    return Flushes(lanes[0].data_offset, length, rows, sizes)


def _row_size(name: str, description: Description, where: str) -> int:
    """Return the bytes per timestep; for actions, those of the observation with the same id, whose lane they share."""
    declared = description.declared.get(f"signal/{name.partition('/')[2]}")
    size = _STEP_LANES.get(name) or (declared.step_size if declared else 0)
    if not size:
        raise RepairError(f"{where}: lane {name!r}: its bytes per timestep are unknown")
    return size


def _pieces(reader: ShardReader, flushes: Flushes, lane: int) -> Sequence[Buffer]:
    ranges = flushes.pieces(lane)
    if flushes.rows_per_flush * flushes.row_sizes[lane] >= _MIN_PIECE:
        return [reader.read_range(start, stop) for start, stop in ranges]
    joined = bytearray()
    for start, stop in ranges:
        joined += reader.read_range(start, stop)
    return [joined]
