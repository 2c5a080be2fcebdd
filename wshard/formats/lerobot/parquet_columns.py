"""Columns of a Parquet file as arrays: by row groups, and ahead where rows are read one after the other."""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from wshard.array_fields import DType
from wshard.errors import EpisodeError, FormatError, LimitError
from wshard.formats.lerobot.arrow_arrays import count_leaves, storage_type, to_array
from wshard.formats.lerobot.open_parquet import import_parquet, translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.types import Array

_Column: TypeAlias = tuple[str, tuple[int, ...]]
"""Its name, and the shape of its rows."""

MAX_FOOTERS: Final = 12
"""Footers that stay open with a Source: one of 1,000 row groups of ten columns takes 9 MB, and 25 ms to read."""

_RECENT_FOOTERS: Final = 2
"""Footers that the next Source need not read: a catalog of any size is filled file by file."""

_MAX_DECODED: Final = 1 << 32
_AHEAD: Final = 1 << 21
_MAX_AHEAD: Final = 32  # row groups: more would be read in vain where reading ends
_LARGE: Final = 1 << 24
_BATCH: Final = 16  # images that are read at once


class _Footer(NamedTuple):
    """What the end of a file says, and the first row of each row group."""

    metadata: Any
    starts: tuple[int, ...]


class _Rows(NamedTuple):
    """Rows of one column: those of the row groups [first, last), from the row `start` of the file on."""

    first: int
    last: int
    start: int
    values: Any


@lru_cache(maxsize=_RECENT_FOOTERS)
def _read_footer(path: str, state: tuple[int, int, int]) -> _Footer:  # noqa: ARG001  (another state, another footer)
    metadata = import_parquet().read_metadata(path)
    counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    return _Footer(metadata, (0, *accumulate(counts)))


class ParquetColumns:
    """An open Parquet file. Columns that are read on from where they were read last are read in larger parts."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        with translate_errors(self.path):
            status = os.stat(self.path)  # noqa: PTH116  (as it is opened)
            self._footer = _read_footer(self.path, (status.st_ino, status.st_size, status.st_mtime_ns))
            self._file = import_parquet().ParquetFile(self.path, metadata=self._footer.metadata)
            self._schema = self._file.schema_arrow
        leaves: dict[str, list[int]] = {}
        stored = self._footer.metadata.num_columns  # not schema: metadata and schema refer to each other, and stay
        place = 0
        for name, count in ((field.name, count_leaves(field.type)) for field in self._schema):
            leaves[name] = list(range(place, place + count))
            place += count
        if place != stored:
            raise FormatError(f"{self.path}: expected {place} columns of values, found {stored}")
        self._leaves = leaves
        self.closed = False
        self._dtypes: dict[str, DType] = {}
        self._rows: dict[_Column, _Rows] = {}

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._rows.clear()
        self._file.close()

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._footer.starts[-1]

    def __contains__(self, name: object) -> bool:
        return name in self._leaves

    def dtype(self, name: str) -> DType:
        """Return the dtype of the numbers in a column; raises FormatError for a column that has none."""
        if name not in self._dtypes:
            kind = storage_type(self._schema.field(self._place(name)).type)
            while hasattr(kind, "value_type") and not hasattr(kind, "index_type"):
                kind = storage_type(kind.value_type)
            try:
                self._dtypes[name] = DType.from_numpy(np.dtype(kind.to_pandas_dtype()))
            except (EpisodeError, NotImplementedError, TypeError):
                raise FormatError(f"{self.path}: column {name!r}: expected numbers, found {kind}") from None
        return self._dtypes[name]

    def numbers(self, name: str, shape: tuple[int, ...], start: int, stop: int) -> Array:
        """Return rows [start, stop) of a column of numbers or of lists of them, as [n, *shape]."""
        rows = self._rows.get((name, shape))
        if rows is None or not rows.start <= start <= stop <= rows.start + len(rows.values):
            size = (stop - start) * math.prod(shape) * self.dtype(name).size
            if size > _MAX_DECODED:
                raise LimitError(f"{self.path}: column {name!r}: expected {_MAX_DECODED} bytes at most, found {size}")
            rows = self._read_rows(name, shape, start, stop)
        found: Array = rows.values[start - rows.start : stop - rows.start].copy()
        return found

    def texts(self, name: str, start: int, stop: int) -> list[str | None]:
        """Return rows [start, stop) of a column of text."""
        with translate_errors(self.path):
            first, last = self._groups(start, stop)
            column = self._columns([name], range(first, last))[name]
            found: list[str | None] = column.slice(start - self._footer.starts[first], stop - start).to_pylist()
        return found

    def images(self, name: str, start: int, stop: int) -> ImageColumn:
        """Return rows [start, stop) of a column of images, struct<bytes, path>, as a sequence that reads them."""
        kind = self._schema.field(self._place(name)).type
        if not hasattr(kind, "get_field_index") or kind.get_field_index("bytes") < 0:
            raise FormatError(f"{self.path}: column {name!r}: expected struct<bytes, path>, found {kind}")
        return ImageColumn(self, name, start, stop)

    def bounds(self, name: str, start: int, stop: int) -> tuple[Any, Any]:
        """Return the minimum and maximum of rows [start, stop), from the statistics of the file if they are exact."""
        first, last = self._groups(start, stop)
        starts, (leaf, *_) = self._footer.starts, self._leaves[name]
        if (starts[first], starts[last]) == (start, stop):
            rows = [self._footer.metadata.row_group(group).column(leaf).statistics for group in range(first, last)]
            if len(rows) == 1 and rows[0] is not None and rows[0].has_min_max:  # as most episodes are written
                return rows[0].min, rows[0].max
            if all(row is not None and row.has_min_max for row in rows):
                return min(row.min for row in rows), max(row.max for row in rows)
        values = self.numbers(name, (), start, stop)
        return values.min(), values.max()

    def stored_size(self, name: str, start: int, stop: int) -> int:
        """Return how many bytes the row groups take in which rows [start, stop) of a column are."""
        with translate_errors(self.path):
            first, last = self._groups(start, stop)
            groups = [self._footer.metadata.row_group(group) for group in range(first, last)]
            return sum(group.column(leaf).total_compressed_size for group in groups for leaf in self._leaves[name])

    def _place(self, name: str) -> int:
        place: int = self._schema.get_field_index(name)
        if place < 0:
            raise FormatError(f"{self.path}: expected one column {name!r}, found {', '.join(self._leaves)}")
        return place

    def _groups(self, start: int, stop: int) -> tuple[int, int]:
        """Return the row groups [first, last) in which rows are; raises FormatError for rows that there are not."""
        if not 0 <= start < stop <= self.count:
            raise FormatError(f"{self.path}: expected rows {start} to {stop - 1}, found {self.count} rows")
        starts = self._footer.starts
        first = bisect_right(starts, start) - 1
        return first, bisect_right(starts, stop - 1, lo=first)

    def _read_rows(self, name: str, shape: tuple[int, ...], start: int, stop: int) -> _Rows:
        if start == stop:
            return _Rows(0, 0, start, np.empty((0, *shape), self.dtype(name).numpy_dtype))
        own = (name, shape)
        with translate_errors(self.path):
            first, last = self._groups(start, stop)
            starts, before = self._footer.starts, self._rows.get(own)
            if (starts[last] - starts[first]) * self._size(own) > _LARGE:
                return self._read_part(name, shape, start, stop)
            if before is None or before.last != first or not self._read_ahead(own, first, last):
                self._read_groups([own], first, last)
        return self._rows[own]

    def _read_ahead(self, own: _Column, first: int, last: int) -> bool:
        """Read more than is asked for; False where not all of it can be read."""
        before = self._rows[own]
        starts, end = self._footer.starts, first + min(2 * (before.last - before.first), _MAX_AHEAD)
        while last < min(end, len(starts) - 1) and (starts[last + 1] - starts[first]) * self._size(own) <= _AHEAD:
            last += 1
        together = self._alike(own, starts[last] - starts[first])
        try:
            with translate_errors(self.path):
                self._read_groups(together, first, last)
        except (FormatError, OSError):
            return False  # damage in other episodes' rows is not an error of the episode that is asked for
        return True

    def _read_groups(self, columns: list[_Column], first: int, last: int) -> None:
        table = self._columns([name for name, _ in columns], range(first, last))
        for name, shape in columns:
            values = to_array(table[name], shape, f"{self.path}: column {name!r}")
            self._rows[name, shape] = _Rows(first, last, self._footer.starts[first], values)

    def _size(self, column: _Column) -> int:
        """Return the bytes of a row."""
        return math.prod(column[1]) * self.dtype(column[0]).size

    def _alike(self, own: _Column, count: int) -> list[_Column]:
        """Return the columns that were read as far as this one: to read `count` rows of all at once costs least."""
        before = self._rows[own]
        return [
            column
            for column, rows in self._rows.items()
            if column == own or (rows[:2] == before[:2] and count * self._size(column) <= _AHEAD)
        ]

    def _read_part(self, name: str, shape: tuple[int, ...], start: int, stop: int) -> _Rows:
        """Return the rows alone: of large row groups, nothing stays in memory."""
        parts = [
            to_array(column, shape, f"{self.path}: column {name!r}") for column in self.batches(name, start, stop, 4096)
        ]
        return _Rows(0, 0, start, np.concatenate(parts))

    def batches(self, name: str, start: int, stop: int, size: int) -> Iterator[Any]:
        """Yield rows [start, stop) of a column in Arrow arrays of at most `size` rows."""
        first, last = self._groups(start, stop)
        place = self._footer.starts[first]
        reader = self._file.reader
        for batch in reader.iter_batches(
            size, row_groups=[*range(first, last)], column_indices=self._leaves[name], use_threads=False
        ):
            begin, end = max(start - place, 0), min(stop - place, len(batch))
            if begin < end:
                yield batch.column(0).slice(begin, end - begin)
            place += len(batch)
            if place >= stop:
                return

    def _columns(self, names: list[str], groups: range) -> Any:
        """Return columns of row groups by name."""
        for name in names:
            self._place(name)
        leaves = sorted({leaf for name in names for leaf in self._leaves[name]})
        return self._file.reader.read_row_groups([*groups], column_indices=leaves, use_threads=False)


class ImageColumn:
    """The encoded images of a run of rows; those that follow one another are read in small batches."""

    def __init__(self, file: ParquetColumns, name: str, start: int, stop: int) -> None:
        self._file, self._name, self._start, self._stop = file, name, start, stop
        self._batches: Iterator[Any] = iter(())
        self._place = stop - start
        self._batch: list[bytes | None] = []

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, step: int) -> bytes:
        """Return the bytes of one image; raises FormatError where there are none."""
        if not self._place <= step < self._place + len(self._batch) + _BATCH:
            self._batches = self._file.batches(self._name, self._start + step, self._stop, _BATCH)
            self._place, self._batch = step, []
        while step >= self._place + len(self._batch):
            self._place += len(self._batch)
            with translate_errors(self._file.path):
                rows = next(self._batches, None)
                self._batch = [None] if rows is None else [row and row["bytes"] for row in rows.to_pylist()]
        image = self._batch[step - self._place]
        if not image:
            where = f"{self._file.path}: column {self._name!r}: row {self._start + step}"
            raise FormatError(f"{where}: expected the bytes of an image, found none")
        return image
