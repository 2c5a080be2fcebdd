"""The columns of an episode in Arrow or Parquet, with the interface of HDF5 datasets: shape, dtype and rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.plugins import import_library
from wshard.errors import FormatError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.files.place import Place
    from wshard.core.types import Array

_MAX_BYTES: Final = 1 << 32
_MAX_DEPTH: Final = 12
_BYTES: Final = np.dtype("O", metadata={"vlen": np.dtype(np.uint8)})
_TEXTS: Final = np.dtype("O", metadata={"vlen": str})


class ArrowColumn:
    """One column: shape [rows, ...], dtype, and rows as arrays, bytes or texts."""

    def __init__(self, table: ArrowTable, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._table, self._path = table, path
        self.shape, self.dtype = shape, dtype

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    def __getitem__(self, rows: Any) -> Any:
        """Return the rows of a slice, or a single row."""
        if not isinstance(rows, slice):
            return self[rows : rows + 1][0]
        start, stop, _ = rows.indices(self.shape[0])
        values = self._table.read(self._path).slice(start, stop - start)
        if values.null_count:
            raise FormatError(f"{self._table.where}: {self._path!r}: expected values, found {values.null_count} nulls")
        if self.dtype is _BYTES:
            return [np.frombuffer(value.as_buffer(), np.uint8) for value in values]
        if self.dtype is _TEXTS:
            return np.array(values.to_pylist(), dtype=object)
        numbers: Array = (values.flatten() if hasattr(values, "flatten") else values).to_numpy(zero_copy_only=False)
        return np.asarray(numbers, self.dtype).reshape(stop - start, *self.shape[1:])


class ArrowTable:
    """An open file of one episode; `where` is its name in messages."""

    def __init__(self, place: Place, where: str) -> None:
        arrow, parquet, ipc = (import_library(name, "minari") for name in ("pyarrow", "pyarrow.parquet", "pyarrow.ipc"))
        self.where = where
        self._file: Any = None
        self._columns: dict[str, Any] = {}
        if place.suffix == ".parquet":
            source = place.path_or_file()
            self._file = parquet.ParquetFile(source, memory_map=isinstance(source, str))
            self.schema, self.rows = self._file.schema_arrow, self._file.metadata.num_rows
            groups = [self._file.metadata.row_group(number) for number in range(self._file.metadata.num_row_groups)]
            size = sum(group.total_byte_size for group in groups)
        else:
            table = ipc.open_file(arrow.py_buffer(place.whole())).read_all()
            table.validate(full=True)
            self.schema, self.rows, size = table.schema, table.num_rows, table.nbytes
            self._columns = dict(zip(table.column_names, table.columns, strict=True))
        if size > _MAX_BYTES:
            raise LimitError(f"{where}: expected at most {_MAX_BYTES} bytes of one episode, found {size}")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._columns = {}

    def read(self, path: str) -> Any:
        """Return a column by its path; parts after the first are fields of structs."""
        top, _, rest = path.partition("/")
        column = self._columns[top] if self._file is None else self._file.read(columns=[path.replace("/", ".")])[top]
        array = column.combine_chunks()
        array = array.chunk(0) if hasattr(array, "chunk") else array
        while rest:
            fields = [field.name for field in array.type]
            name = next(field_name for field_name in fields if f"{rest}/".startswith(f"{field_name}/"))
            array, rest = array.field(name), rest[len(name) + 1 :]
        return array

    def columns(self, spaces: Mapping[str, Any]) -> Iterator[tuple[str, str, ArrowColumn | None]]:
        """Yield (path, name in HDF5, column) of all columns of the file; None: a column of another kind.

        spaces: those of observations and actions, which define shapes.
        """
        for field in self.schema:
            yield from self._below(field, (field.name, field.name), spaces.get(field.name) or {}, _MAX_DEPTH)

    def _below(
        self, field: Any, names: tuple[str, str], space: Mapping[str, Any], depth: int
    ) -> Iterator[tuple[str, str, ArrowColumn | None]]:
        types = _types()
        if types.is_struct(field.type) and depth:
            inner: Any = space.get("subspaces")
            for number, child in enumerate(field.type):
                is_list = isinstance(inner, list) and number < len(inner)
                subspace = inner[number] if is_list else inner.get(child.name) if isinstance(inner, dict) else None
                hdf5_name = f"_index_{child.name}" if is_list else child.name
                yield from self._below(
                    child, (f"{names[0]}/{child.name}", f"{names[1]}/{hdf5_name}"), subspace or {}, depth - 1
                )
            return
        shape_and_dtype = _shape_and_dtype(field, space)
        column = (
            None
            if shape_and_dtype is None
            else ArrowColumn(self, names[0], (self.rows, *shape_and_dtype[0]), shape_and_dtype[1])
        )
        if column is not None and column.size * column.dtype.itemsize > _MAX_BYTES:
            raise LimitError(f"{self.where}: {names[0]!r}: expected at most {_MAX_BYTES} bytes, found {column.shape}")
        yield *names, column


def _types() -> Any:
    return import_library("pyarrow.types", "minari")


def _shape_and_dtype(field: Any, space: Mapping[str, Any]) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Return the shape of a row and the dtype; None for a column that cannot be a lane."""
    types = _types()
    if types.is_binary(field.type) or types.is_large_binary(field.type):
        return (), _BYTES
    if types.is_string(field.type) or types.is_large_string(field.type):
        return (), _TEXTS
    is_list = types.is_fixed_size_list(field.type)
    item = field.type.value_type if is_list else field.type
    if not (types.is_integer(item) or types.is_floating(item) or types.is_boolean(item)):
        return None
    shape = _shape_of(field, space) if is_list else ()
    return shape, np.dtype(item.to_pandas_dtype())


def _shape_of(field: Any, space: Mapping[str, Any]) -> tuple[int, ...]:
    size = field.type.list_size
    stated_text = (field.metadata or {}).get(b"shape")
    stated_shape = None if stated_text is None else tuple(int(size_) for size_ in stated_text.split(b",") if size_)
    shape = _space_shape(space, (size,)) if stated_shape is None else stated_shape
    return shape if math.prod(shape) == size and min(shape, default=0) >= 0 else (size,)


def _space_shape(space: Mapping[str, Any], default: tuple[int, ...]) -> tuple[int, ...]:
    for name in ("shape", "nvec", "n"):
        value = space.get(name)
        if name == "nvec" and value is not None:
            return np.shape(value)
        if isinstance(value, list) and all(type(axis_size) is int for axis_size in value):
            return tuple(value)
    return default
