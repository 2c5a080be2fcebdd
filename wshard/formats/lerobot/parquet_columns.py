"""Columns of a Parquet file as arrays, read by row groups, with read-ahead for sequential access."""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.files.schemes import place_of
from wshard.errors import EpisodeError, FormatError, LimitError
from wshard.formats.lerobot.arrow_arrays import concat_arrays, count_leaves, storage_type, to_array
from wshard.formats.lerobot.image_column import ImageColumn
from wshard.formats.lerobot.open_parquet import import_parquet, translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.files.place import FileStatus, Place
    from wshard.core.files.schemes import Location
    from wshard.core.types import Array

_Column: TypeAlias = tuple[str, tuple[int, ...]]
"""The name of a column, and the shape of its rows."""

MAX_FOOTERS: Final = 12
"""Footers that stay open with a Source: one of 1,000 row groups of ten columns takes 9 MB, and 25 ms to read."""

_CACHED_FOOTERS: Final = 2  # between Sources, as an ingest opens a Source for each episode of a file
_MAX_DECODED: Final = 1 << 32
_MAX_READ_AHEAD: Final = 1 << 21
_MAX_GROUPS_AHEAD: Final = 32  # row groups; reading more would be wasted if sequential access ends
_LARGE: Final = 1 << 24
_ANY: Final = (-1,)  # in place of the shape of rows, of those that stay Arrow arrays
_MAX_ROWS: Final = 1 << 20  # of row groups that are read whole


class _Footer(NamedTuple):
    """The footer of a file, and the first row of each row group, with the number of rows at the end."""

    metadata: Any
    starts: tuple[int, ...]


class _Rows(NamedTuple):
    """Rows of one column: those of the row groups [first, last), from the row `start` of the file on."""

    first: int
    last: int
    start: int
    values: Any


@lru_cache(maxsize=_CACHED_FOOTERS)
def _read_footer(place: Place, status: FileStatus) -> _Footer:  # noqa: ARG001  (part of the cache key)
    metadata = import_parquet().read_metadata(place.path_or_file())
    counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    return _Footer(metadata, (0, *accumulate(counts)))


class ParquetColumns:
    """An open Parquet file. Columns that are read sequentially are read in larger and larger parts."""

    def __init__(self, location: Location) -> None:
        place = place_of(location)
        self.path = str(place)
        with translate_errors(place):
            file = place.path_or_file()
            self._footer = _read_footer(place, place.status())
            self._file = import_parquet().ParquetFile(file, metadata=self._footer.metadata)
            self.schema = self._file.schema_arrow
        leaves: dict[str, list[int]] = {}
        stored = self._footer.metadata.num_columns  # not schema: metadata and schema refer to each other, and stay
        leaf = 0
        for name, count in ((field.name, count_leaves(field.type)) for field in self.schema):
            leaves[name] = list(range(leaf, leaf + count))
            leaf += count
        if leaf != stored:
            raise FormatError(f"{self.path}: expected {leaf} columns of values, found {stored}")
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
            type_ = storage_type(self.schema.field(self._column_index(name)).type)
            while hasattr(type_, "value_type") and not hasattr(type_, "index_type"):
                type_ = storage_type(type_.value_type)
            try:
                self._dtypes[name] = DType.from_numpy(np.dtype(type_.to_pandas_dtype()))
            except (EpisodeError, NotImplementedError, TypeError):
                raise FormatError(f"{self.path}: column {name!r}: expected numbers, found {type_}") from None
        return self._dtypes[name]

    def numbers(self, name: str, shape: tuple[int, ...], start: int, stop: int) -> Array:
        """Return rows [start, stop) of a column of numbers or of lists of them, as [n, *shape]."""
        rows = self._rows.get((name, shape))
        if rows is None or not rows.start <= start <= stop <= rows.start + len(rows.values):
            size = (stop - start) * math.prod(shape) * self.dtype(name).size
            if size > _MAX_DECODED:
                raise LimitError(f"{self.path}: column {name!r}: expected {_MAX_DECODED} bytes at most, found {size}")
            rows = self._read_rows(name, shape, start, stop)
        values: Array = rows.values[start - rows.start : stop - rows.start].copy()
        return values

    def texts(self, name: str, start: int, stop: int) -> list[str | None]:
        """Return rows [start, stop) of a column of text."""
        with translate_errors(self.path):
            first, last = self._groups(start, stop)
            column = self._columns([name], range(first, last))[name]
            values: list[str | None] = column.slice(start - self._footer.starts[first], stop - start).to_pylist()
        return values

    def null_count(self, name: str) -> int | None:
        """Return how many rows of a column have no value, None if the statistics of the file do not say."""
        metadata, leaf = self._footer.metadata, self._leaves[name][0]
        found = [metadata.row_group(group).column(leaf).statistics for group in range(metadata.num_row_groups)]
        counts = [one.null_count if one is not None and one.has_null_count else None for one in found]
        return None if None in counts else sum(filter(None, counts))

    def rows(self, name: str, start: int, stop: int) -> Any:
        """Return rows [start, stop) of a column as an Arrow array; those of the last row groups stay in memory."""
        with translate_errors(self.path):
            first, last = self._groups(start, stop)
            column = name, _ANY
            known = self._rows.get(column)
            if known is None or not known.first <= first < last <= known.last:
                if self._footer.starts[last] - self._footer.starts[first] > _MAX_ROWS:
                    return concat_arrays([*self.batches(name, start, stop, _MAX_ROWS)])
                if known is None or known.last != first or not self._read_ahead(column, first, last):
                    self._read_groups(self._columns_read_alike(column) if known else [column], first, last)
                known = self._rows[column]
            return known.values.slice(start - known.start, stop - start)

    def images(self, name: str, start: int, stop: int) -> ImageColumn:
        """Return rows [start, stop) of a column of images, struct<bytes, path>, as a sequence that reads them."""
        type_ = self.schema.field(self._column_index(name)).type
        if not hasattr(type_, "get_field_index") or type_.get_field_index("bytes") < 0:
            raise FormatError(f"{self.path}: column {name!r}: expected struct<bytes, path>, found {type_}")
        return ImageColumn(self, name, start, stop)

    def bounds(self, name: str, start: int, stop: int) -> tuple[Any, Any]:
        """Return the minimum and maximum of rows [start, stop), from the statistics of the file if they are exact."""
        first, last = self._groups(start, stop)
        starts, (leaf, *_) = self._footer.starts, self._leaves[name]
        if (starts[first], starts[last]) == (start, stop):
            rows = [self._footer.metadata.row_group(group).column(leaf).statistics for group in range(first, last)]
            if len(rows) == 1 and rows[0] is not None and rows[0].has_min_max:  # as of most episodes
                return rows[0].min, rows[0].max
            if all(row is not None and row.has_min_max for row in rows):
                return min(row.min for row in rows), max(row.max for row in rows)
        values = self.numbers(name, (), start, stop)
        return values.min(), values.max()

    def stored_size(self, name: str, start: int, stop: int) -> int:
        """Return the stored bytes of a column in the row groups that contain rows [start, stop)."""
        with translate_errors(self.path):
            first, last = self._groups(start, stop)
            groups = [self._footer.metadata.row_group(group) for group in range(first, last)]
            return sum(group.column(leaf).total_compressed_size for group in groups for leaf in self._leaves[name])

    def _column_index(self, name: str) -> int:
        index: int = self.schema.get_field_index(name)
        if index < 0:
            raise FormatError(f"{self.path}: expected one column {name!r}, found {', '.join(self._leaves)}")
        return index

    def _groups(self, start: int, stop: int) -> tuple[int, int]:
        """Return the row groups [first, last) that contain rows; raises FormatError for rows beyond the file."""
        if not 0 <= start < stop <= self.count:
            raise FormatError(f"{self.path}: expected rows {start} to {stop - 1}, found {self.count} rows")
        starts = self._footer.starts
        first = bisect_right(starts, start) - 1
        return first, bisect_right(starts, stop - 1, lo=first)

    def _read_rows(self, name: str, shape: tuple[int, ...], start: int, stop: int) -> _Rows:
        if start == stop:
            return _Rows(0, 0, start, np.empty((0, *shape), self.dtype(name).numpy_dtype))
        column = (name, shape)
        with translate_errors(self.path):
            first, last = self._groups(start, stop)
            starts, cached = self._footer.starts, self._rows.get(column)
            if (starts[last] - starts[first]) * self._size(column) > _LARGE:
                return self._read_part(name, shape, start, stop)
            if cached is None or cached.last != first or not self._read_ahead(column, first, last):
                self._read_groups([column], first, last)
        return self._rows[column]

    def _read_ahead(self, column: _Column, first: int, last: int) -> bool:
        """Read more row groups than requested; False if not all of them can be read."""
        cached = self._rows[column]
        starts, end = self._footer.starts, first + min(2 * (cached.last - cached.first), _MAX_GROUPS_AHEAD)
        while (
            last < min(end, len(starts) - 1)
            and (starts[last + 1] - starts[first]) * self._size(column) <= _MAX_READ_AHEAD
        ):
            last += 1
        columns = self._columns_read_alike(column, starts[last] - starts[first])
        try:
            with translate_errors(self.path):
                self._read_groups(columns, first, last)
        except (FormatError, OSError):
            return False  # damage in other episodes' rows is not an error of the requested episode
        return True

    def _read_groups(self, columns: list[_Column], first: int, last: int) -> None:
        table = self._columns([name for name, _ in columns], range(first, last))
        for name, shape in columns:
            stored = table[name]
            values = (
                stored.combine_chunks() if shape == _ANY else to_array(stored, shape, f"{self.path}: column {name!r}")
            )
            self._rows[name, shape] = _Rows(first, last, self._footer.starts[first], values)

    def _size(self, column: _Column) -> int:
        """Return the bytes of a row; of one that stays an Arrow array, those of the first row group."""
        name, shape = column
        if shape != _ANY:
            return math.prod(shape) * self.dtype(name).size
        group = self._footer.metadata.row_group(0)
        stored = sum(int(group.column(leaf).total_uncompressed_size) for leaf in self._leaves[name])
        return stored // max(int(group.num_rows), 1)

    def _columns_read_alike(self, column: _Column, count: int = 0) -> list[_Column]:
        """Return the columns with the same row groups in memory; reading `count` rows of them together costs least."""
        cached = self._rows[column]
        return [
            other
            for other, rows in self._rows.items()
            if other == column or (rows[:2] == cached[:2] and count * self._size(other) <= _MAX_READ_AHEAD)
        ]

    def _read_part(self, name: str, shape: tuple[int, ...], start: int, stop: int) -> _Rows:
        """Return only these rows of large row groups, and keep nothing in memory."""
        parts = [
            to_array(column, shape, f"{self.path}: column {name!r}") for column in self.batches(name, start, stop, 4096)
        ]
        return _Rows(0, 0, start, np.concatenate(parts))

    def batches(self, name: str, start: int, stop: int, size: int) -> Iterator[Any]:
        """Yield rows [start, stop) of a column in Arrow arrays of at most `size` rows."""
        first, last = self._groups(start, stop)
        row = self._footer.starts[first]
        reader = self._file.reader
        for batch in reader.iter_batches(
            size, row_groups=[*range(first, last)], column_indices=self._leaves[name], use_threads=False
        ):
            begin, end = max(start - row, 0), min(stop - row, len(batch))
            if begin < end:
                yield batch.column(0).slice(begin, end - begin)
            row += len(batch)
            if row >= stop:
                return

    def _columns(self, names: list[str], groups: range) -> Any:
        """Return columns of row groups by name."""
        for name in names:
            self._column_index(name)
        leaves = sorted({leaf for name in names for leaf in self._leaves[name]})
        return self._file.reader.read_row_groups([*groups], column_indices=leaves, use_threads=False)
