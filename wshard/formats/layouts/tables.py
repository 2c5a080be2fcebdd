"""Tables as arrays: Parquet by row groups, Arrow mapped, text files read whole."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.place import parse_json
from wshard.core.plugins import import_library
from wshard.errors import ArrayKindError, FormatError, LimitError
from wshard.formats.hdf5.values import unit_of
from wshard.formats.layouts.columns import BYTES, TEXTS, Flat, RowView, as_column, as_texts
from wshard.formats.layouts.text_files import read_text_table
from wshard.formats.lerobot.arrow_arrays import to_array
from wshard.formats.lerobot.open_parquet import translate_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wshard.core.files.place import Place
    from wshard.core.types import Array
    from wshard.formats.layouts.columns import ArrayFile, RowArray

_MAX_READ: Final = 1 << 32
"""Bytes of rows that are read at a time: a file of a few bytes can claim any number of equal ones."""

_TEXT_SIZE: Final = 64  # bytes that a text takes in memory, about
_MAX_DEPTH: Final = 16
_MAX_COLUMNS: Final = 4096
_TEXT_TYPES: Final = ("string", "large_string", "string_view")
_FIXED: Final = ("int", "uint", "float", "double", "halffloat", "bool", "timestamp", "date", "time", "duration")
_translate_errors: Final = partial(translate_errors, kind="a table")


def open_table(place: Place) -> ArrayFile:
    """Open a table; raises FormatError, LimitError, MissingExtraError, OSError."""
    return ParquetRows(place) if place.suffix.lower() == ".parquet" else ArrowColumns(place)


class _Table(Flat):
    """Columns of an Arrow schema; a subclass returns rows of them."""

    def __init__(self, place: Place, schema: Any, count: int) -> None:
        self._where, self.count = str(place), count
        if len(schema.names) > _MAX_COLUMNS:
            raise LimitError(f"{place}: expected at most {_MAX_COLUMNS} columns, found {len(schema.names)}")
        self._types = dict(zip(schema.names, schema.types, strict=True))
        if len(self._types) < len(schema.names):
            raise FormatError(f"{place}: expected different names of columns, found one twice")
        self._stated_for = {name: schema.field(number).metadata or {} for number, name in enumerate(schema.names)}
        self._columns: dict[str, RowArray] = {}

    def unit(self, path: str) -> str:
        """Return the unit in the metadata of a column."""
        return unit_of(lambda name: self._stated_for.get(path, {}).get(name.encode()))

    def paths(self, group: str = "") -> list[str]:
        """Return the names of the columns."""
        return [name for name in self._types if name] if not group else []

    def column(self, path: str) -> RowArray:
        """Return a column; raises FormatError."""
        if path not in self._types:
            raise FormatError(f"{self._where}: expected a column {path!r}, found {', '.join(self._types) or 'none'}")
        if path not in self._columns:
            self._columns[path] = self._view(path)
        return self._columns[path]

    def cell(self, path: str, row: int) -> RowArray:
        """Return what a row has in a column, a number, a text or a list of them, as an array; raises FormatError."""
        if not hasattr(self._types[path], "value_type") or hasattr(self._types[path], "index_type"):
            return as_column(np.asarray(self.column(path)[row]))
        with _translate_errors(self._where):
            values, where = self._rows(path, row, row + 1)[0].values, f"{self._where}: column {path!r}: row {row}"
            if values is None:
                raise FormatError(f"{where}: expected a list, found none")
            if str(values.type) in _TEXT_TYPES:
                return as_texts([value or "" for value in values.to_pylist()])
            first = values[0].as_py() if len(values) else None
            try:
                return as_column(to_array(values, _list_shape(first, values.type)[0], where))
            except TypeError as error:  # of a list in which no row has a value
                raise ArrayKindError(f"{where}: {error}") from None

    def _rows(self, name: str, start: int, stop: int) -> Any:
        """Return rows of a column as an Arrow array."""
        raise NotImplementedError

    def _has_gaps(self, name: str) -> bool:
        """Return True if a column may lack values."""
        raise NotImplementedError

    def _view(self, name: str) -> RowArray:
        with _translate_errors(self._where):
            dtype, shape, convert = self._kind_of(name)

        size = math.prod(shape) * (_TEXT_SIZE if dtype.kind == "O" else dtype.itemsize)

        def read(start: int, stop: int) -> Array:
            with _translate_errors(self._where):
                if (stop - start) * size > _MAX_READ:
                    raise LimitError(
                        f"{self._where}: column {name!r}: expected at most {_MAX_READ // size} rows at once, "
                        f"found {stop - start}: split the file"
                    )
                rows = self._rows(name, start, stop) if stop > start else None
                return np.empty((0, *shape), dtype) if rows is None else convert(rows)

        return RowView((self.count, *shape), dtype, read)

    def _kind_of(self, name: str) -> tuple[Any, tuple[int, ...], Callable[[Any], Array]]:
        """Return dtype, shape of a row, and how its rows become an array."""
        type_, where = self._types[name], f"{self._where}: column {name!r}"
        text = str(type_)
        if text.startswith("dictionary"):
            type_ = type_.value_type
            text = str(type_)
        if text in _TEXT_TYPES:
            return TEXTS, (), _texts
        if text in ("binary", "large_binary"):
            return (
                BYTES,
                (),
                lambda rows: _objects([np.frombuffer(value or b"", np.uint8) for value in rows.to_pylist()]),
            )
        if text.startswith("struct") and type_.get_field_index("bytes") >= 0:  # as Hugging Face stores images
            return (
                BYTES,
                (),
                lambda rows: _objects(
                    [np.frombuffer((value or {}).get("bytes") or b"", np.uint8) for value in rows.to_pylist()]
                ),
            )
        if text.startswith(("timestamp", "duration", "date")):
            unit = "M8[ns]" if not text.startswith("duration") else "m8[ns]"
            return np.dtype(unit), (), lambda rows: _times(rows, unit, where)
        first = self._rows(name, 0, 1)[0].as_py() if self.count and hasattr(type_, "value_type") else None
        shape, leaf = _list_shape(first, type_)
        try:
            dtype = np.dtype(leaf.to_pandas_dtype())
        except NotImplementedError:
            dtype = np.dtype(object)
        is_decimal = hasattr(leaf, "scale") and not shape
        dtype = np.dtype(np.float64) if is_decimal else dtype
        if dtype.kind not in "biuf":
            raise ArrayKindError(f"{where}: expected numbers, texts or images, found {type_}")
        if shape or not (is_decimal or self._has_gaps(name)):
            return dtype, shape, lambda rows: to_array(rows, shape, where).astype(dtype, copy=False)
        dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
        return dtype, (), lambda rows: _with_gaps(rows).astype(dtype, copy=False)


def _list_shape(first: Any, type_: Any) -> tuple[tuple[int, ...], Any]:
    """Return the shape of lists of which this is the first, and the type of what is in them."""
    shape: list[int] = []
    while hasattr(type_, "value_type") and len(shape) < _MAX_DEPTH:
        shape.append(len(first) if isinstance(first, list) else 0)
        first = first[0] if isinstance(first, list) and first else None
        type_ = type_.value_type
    return tuple(shape), type_


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _texts(rows: Any) -> Array:
    """Return texts, "" where there is none; those that are equal take memory once."""
    coded = rows if hasattr(rows, "dictionary") else rows.dictionary_encode()
    texts = _objects([*(value or "" for value in coded.dictionary.to_pylist()), ""])
    found: Array = texts[np.from_dlpack(coded.indices.fill_null(len(texts) - 1))]
    return found


def _with_gaps(rows: Any) -> Array:
    """Return numbers as float64, NaN where there is none."""
    return np.array([np.nan if value is None else value for value in rows.to_pylist()], np.float64)


def _times(rows: Any, unit: str, where: str) -> Array:
    if rows.null_count:
        raise FormatError(f"{where}: expected a time in every row, found none in {rows.null_count}")
    return np.asarray(rows.to_numpy(zero_copy_only=False)).astype(unit)


class ParquetRows(_Table):
    """A Parquet file, read by row groups."""

    def __init__(self, place: Place) -> None:
        from wshard.formats.lerobot.parquet_columns import ParquetColumns  # noqa: PLC0415  (pyarrow)

        self._file = ParquetColumns(place)
        super().__init__(place, self._file.schema, self._file.count)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def count_gaps(self, path: str) -> int:
        """Return how many rows of a column are null, by the statistics of the file; 0 if it has none."""
        with _translate_errors(self._where):
            return self._file.null_count(path) or 0

    def _rows(self, name: str, start: int, stop: int) -> Any:
        return self._file.rows(name, start, stop)

    def _has_gaps(self, name: str) -> bool:
        return self._file.null_count(name) != 0


class ArrowColumns(_Table):
    """An Arrow file, which is mapped, or a text table, which is read whole."""

    def __init__(self, place: Place) -> None:
        arrow = import_library("pyarrow", "parquet")
        self._stated = _stated_above(place) if place.suffix.lower() in (".csv", ".tsv") else {}
        with _translate_errors(str(place)):
            self._table = _read_arrow(arrow, place, skipped=int(bool(self._stated)))
            super().__init__(place, self._table.schema, self._table.num_rows)  # names may be no UTF-8
        self._is_checked: set[str] = set()

    def attributes(self, group: str = "") -> Mapping[str, Any]:
        """Return what the line above the names of the columns states."""
        return {} if group else self._stated

    def count_gaps(self, path: str) -> int:
        """Return how many rows of a column are null or NaN."""
        compute = import_library("pyarrow.compute", "parquet")
        with _translate_errors(self._where):
            column, is_float = self._checked(path), str(self._types[path]) in ("float", "double")
            return int(column.null_count + ((compute.sum(compute.is_nan(column)).as_py() or 0) if is_float else 0))

    def _checked(self, name: str) -> Any:
        column = self._table.column(name)
        if name not in self._is_checked:  # offsets in a file that is mapped may point anywhere
            column.validate(full=not str(self._types[name]).startswith(_FIXED))
            self._is_checked.add(name)
        return column

    def _rows(self, name: str, start: int, stop: int) -> Any:
        rows = self._checked(name).slice(start, stop - start).combine_chunks()
        return rows.dictionary_decode() if hasattr(rows, "dictionary_decode") else rows

    def _has_gaps(self, name: str) -> bool:
        return bool(self._table.column(name).null_count)


def _stated_above(place: Place) -> dict[str, Any]:
    """Return the members of a line "#{...}" in JSON above the names of the columns, {} without one."""
    line = place.read(0, 1 << 16).split(b"\n", 1)[0]
    try:
        stated = parse_json(line[1:], 1 << 16, str(place)) if line.startswith(b"#{") else {}
    except FormatError:
        return {}
    return stated if isinstance(stated, dict) else {}


def _read_arrow(arrow: Any, place: Place, *, skipped: int) -> Any:
    suffix = place.suffix.lower()
    if suffix in (".feather", ".arrow"):
        source = place.path_or_file()
        opened = arrow.memory_map(source) if isinstance(source, str) else source
        try:
            return arrow.ipc.open_file(opened).read_all()
        except arrow.ArrowInvalid:
            opened.seek(0)
            return arrow.ipc.open_stream(opened).read_all()
    return read_text_table(place, skipped)
