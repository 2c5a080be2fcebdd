"""Arrays that are read by rows: what containers of them are, and views of the rows of one episode."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from wshard.core.episode.natural_order import sort_naturally
from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wshard.core.types import Array

TEXTS: Final = np.dtype("O", metadata={"vlen": str})
"""The dtype of texts, as h5py declares it."""

BYTES: Final = np.dtype("O", metadata={"vlen": np.uint8})
"""The dtype of encoded images, as h5py declares it."""


class RowArray(Protocol):
    """An array [rows, ...] that is read by slices."""

    @property
    def shape(self) -> Any:
        """Its shape."""

    @property
    def dtype(self) -> Any:
        """Its dtype; TEXTS for texts."""

    @property
    def size(self) -> Any:
        """The number of values."""

    def __getitem__(self, rows: Any) -> Any:
        """Return the rows of a slice, a single row, or everything for ()."""


def path_in(group: str, name: str) -> str:
    """Return the whole path of an array of a group, "" for that of the file."""
    return f"{group}/{name}" if group else name


class ArrayFile(Protocol):
    """An open file or folder of arrays."""

    def paths(self, group: str = "") -> Sequence[str]:
        """Return the paths of the arrays below a group, relative to it, sorted by name."""

    def column(self, path: str) -> RowArray:
        """Return an array by its whole path; raises FormatError."""

    def groups(self, pattern: str) -> Sequence[str]:
        """Return the paths of the groups that fit a path with wildcards, in natural order."""

    def attributes(self, group: str = "") -> Mapping[str, Any]:
        """Return what is stated once for a group: texts, numbers, small arrays."""

    def unit(self, path: str) -> str:
        """Return the unit that is stated for an array, by its whole path; "" for none."""

    def close(self) -> None:
        """Close the file; rows returned earlier stay valid."""


class Flat:
    """An ArrayFile without attributes, whose groups are the beginnings of paths."""

    def paths(self, group: str = "") -> Sequence[str]:
        """Return the paths of the arrays below a group."""
        raise NotImplementedError

    def column(self, path: str) -> RowArray:
        """Return an array."""
        raise NotImplementedError

    def names(self) -> Sequence[str]:
        """Return the names of the arrays."""
        return self.paths()

    def single(self, name: str) -> RowArray:
        """Return an array."""
        return self.column(name)

    def groups(self, pattern: str) -> Sequence[str]:
        """Return the groups that fit the pattern."""
        depth = pattern.count("/") + 1
        found = {"/".join(parts[:depth]) for path in self.paths() if len(parts := path.split("/")) > depth}
        return sort_naturally(group for group in found if fnmatchcase(group, pattern))

    def attributes(self, _group: str = "") -> Mapping[str, Any]:
        """Return nothing."""
        return {}

    def unit(self, _path: str) -> str:
        """Return "": no unit is stated."""
        return ""

    def count_gaps(self, path: str) -> int:
        """Return how many rows of a column of numbers have no value."""
        values = np.asarray(self.column(path)[()])
        return int(np.count_nonzero(np.isnan(values))) if values.dtype.kind == "f" else 0

    def close(self) -> None:
        """Do nothing."""


class RowView:
    """Rows made from those of another column: `read(start, stop)` returns some of them."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, read: Callable[[int, int], Any]) -> None:
        self.shape, self.dtype, self._read = shape, np.dtype(dtype) if not hasattr(dtype, "metadata") else dtype, read

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    def __getitem__(self, rows: Any) -> Any:
        """Return the rows of a slice, a single row, or everything for ()."""
        if isinstance(rows, tuple) and len(rows) == 0:
            return self._read(0, self.shape[0]) if self.shape else self._read(0, 1)
        if isinstance(rows, tuple):  # row, columns
            return self[rows[0]][rows[1:]]
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.shape[0])
            return self._read(start, max(start, stop))
        return self._read(rows, rows + 1)[0]


def as_column(array: RowArray) -> RowArray:
    """Return an array as a column; texts get the dtype that h5py declares."""
    if array.dtype.kind != "U" or not array.dtype.itemsize:
        return array
    return RowView(
        array.shape, TEXTS, lambda start, stop: array[start:stop].astype(object) if array.shape else str(array[()])
    )


def as_texts(texts: Sequence[str]) -> RowArray:
    """Return texts as a column."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return RowView((len(texts),), TEXTS, lambda start, stop: array[start:stop])


def rows_of(column: RowArray, start: int, stop: int) -> RowArray:
    """Return the rows [start, stop) of a column."""
    if start == 0 and stop == column.shape[0]:
        return column
    return RowView(
        (stop - start, *column.shape[1:]),
        column.dtype,
        lambda first, last: column[start + first : start + last],
    )


def value_of(column: RowArray, episode: int) -> Any:
    """Return the row of an episode in an array with one each: a single value, or an array."""
    value = np.asarray(column[episode : episode + 1])[0]
    return as_column(np.array(value)) if isinstance(value, str) else value


def taken(column: RowArray, rows: Array) -> RowArray:
    """Return the rows of a column at these places, in this order."""
    low, high = int(rows.min()), int(rows.max()) + 1

    def read(first: int, last: int) -> Any:
        part = rows[first:last]
        if not len(part):
            return column[low:low]
        begin = int(part.min())
        return np.asarray(column[begin : int(part.max()) + 1])[part - begin]

    if (np.diff(rows) == 1).all():
        return rows_of(column, low, high)
    return RowView((len(rows), *column.shape[1:]), column.dtype, read)


def of_batch(column: RowArray, episode: int, axis: int, length: int) -> RowArray:
    """Return the first rows of one episode in an array [episodes, steps, ...], or of axis 1 [steps, episodes, ...]."""
    steps = column.shape[1 - axis]
    if axis == 0:
        whole = RowView((steps, *column.shape[2:]), column.dtype, lambda first, last: column[episode, first:last])
    else:
        whole = RowView((steps, *column.shape[2:]), column.dtype, lambda first, last: column[first:last, episode])
    return rows_of(whole, 0, min(length, steps))


def turned(column: RowArray) -> RowArray:
    """Return an array [values, rows, ...] as [rows, values, ...]."""
    values, count, *rest = column.shape

    def read(first: int, last: int) -> Array:
        return np.swapaxes(np.asarray(column[:, first:last]), 0, 1)

    return RowView((count, values, *rest), column.dtype, read)


def stacked(columns: list[RowArray], where: str) -> RowArray:
    """Return columns [rows] as one [rows, columns]."""
    count, dtypes = columns[0].shape[0], [column.dtype for column in columns]
    for column in columns:
        if len(column.shape) != 1 or column.dtype.kind not in "biuf" or column.shape[0] != count:
            raise FormatError(
                f"{where}: expected columns of {count} numbers, found {column.dtype} {list(column.shape)}"
            )

    def read(first: int, last: int) -> Array:
        return np.stack([np.asarray(column[first:last]) for column in columns], axis=1, dtype=dtype)

    dtype = np.result_type(*dtypes)
    return RowView((count, len(columns)), dtype, read)
