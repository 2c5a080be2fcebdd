"""Tables and JSON documents as arrays: Parquet by row groups, Arrow mapped, text files read whole."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.place import parse_json
from wshard.core.plugins import import_library
from wshard.errors import FormatError, LimitError
from wshard.formats.layouts.columns import BYTES, TEXTS, Flat, RowView, as_column
from wshard.formats.layouts.layout import SUFFIXES
from wshard.formats.lerobot.arrow_arrays import to_array
from wshard.formats.lerobot.open_parquet import translate_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wshard.core.files.place import Place
    from wshard.core.types import Array
    from wshard.formats.layouts.columns import ArrayFile, RowArray

_MAX_TEXT: Final = 1 << 30
"""Bytes of a file that is read whole."""

_MAX_DEPTH: Final = 16
_MAX_COLUMNS: Final = 4096


def open_table(kind: str, place: Place) -> ArrayFile:
    """Open a table or a JSON document; raises FormatError, LimitError, MissingExtraError, OSError."""
    if kind == "json" or place.suffix.lower() in SUFFIXES["json"]:
        return JsonArrays(place)
    return ParquetRows(place) if place.suffix.lower() == ".parquet" else ArrowColumns(place)


class _Table(Flat):
    """Columns of an Arrow schema; a subclass returns rows of them."""

    def __init__(self, place: Place, schema: Any, count: int) -> None:
        self._where, self._count = str(place), count
        if len(schema.names) > _MAX_COLUMNS:
            raise LimitError(f"{place}: expected at most {_MAX_COLUMNS} columns, found {len(schema.names)}")
        self._types = dict(zip(schema.names, schema.types, strict=True))
        if len(self._types) < len(schema.names):
            raise FormatError(f"{place}: expected different names of columns, found one twice")
        self._columns: dict[str, RowArray] = {}

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

    def _rows(self, name: str, start: int, stop: int) -> Any:
        """Return rows of a column as an Arrow array."""
        raise NotImplementedError

    def _has_gaps(self, name: str) -> bool:
        """Return True if a column may lack values."""
        raise NotImplementedError

    def _view(self, name: str) -> RowArray:
        with translate_errors(self._where):
            dtype, shape, convert = self._kind_of(name)

        def read(start: int, stop: int) -> Array:
            with translate_errors(self._where):
                rows = self._rows(name, start, stop) if stop > start else None
                return np.empty((0, *shape), dtype) if rows is None else convert(rows)

        return RowView((self._count, *shape), dtype, read)

    def _kind_of(self, name: str) -> tuple[Any, tuple[int, ...], Callable[[Any], Array]]:
        """Return dtype, shape of a row, and how its rows become an array."""
        type_, where = self._types[name], f"{self._where}: column {name!r}"
        text = str(type_)
        if text.startswith("dictionary"):
            type_ = type_.value_type
            text = str(type_)
        if text in ("string", "large_string", "string_view"):
            return TEXTS, (), lambda rows: _objects([value or "" for value in rows.to_pylist()])
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
        shape, leaf = self._row_shape(name, type_)
        dtype = np.dtype(leaf.to_pandas_dtype()) if not hasattr(leaf, "scale") else np.dtype(np.float64)
        if dtype.kind not in "biuf":
            raise FormatError(f"{where}: expected numbers, texts or images, found {type_}")
        if shape or not self._has_gaps(name):
            return dtype, shape, lambda rows: to_array(rows, shape, where).astype(dtype, copy=False)
        dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
        return dtype, (), lambda rows: _with_gaps(rows).astype(dtype, copy=False)

    def _row_shape(self, name: str, type_: Any) -> tuple[tuple[int, ...], Any]:
        shape: list[int] = []
        first = self._rows(name, 0, 1)[0].as_py() if self._count and hasattr(type_, "value_type") else None
        while hasattr(type_, "value_type") and len(shape) < _MAX_DEPTH:
            shape.append(len(first) if isinstance(first, list) else 0)
            first = first[0] if isinstance(first, list) and first else None
            type_ = type_.value_type
        return tuple(shape), type_


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


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

    def _rows(self, name: str, start: int, stop: int) -> Any:
        return self._file.rows(name, start, stop)

    def _has_gaps(self, name: str) -> bool:
        return self._file.has_nulls(name)


class ArrowColumns(_Table):
    """An Arrow file, which is mapped, or a text table, which is read whole."""

    def __init__(self, place: Place) -> None:
        arrow = import_library("pyarrow", "parquet")
        with translate_errors(str(place)):
            self._table = _read_arrow(arrow, place)
        super().__init__(place, self._table.schema, self._table.num_rows)

    def _rows(self, name: str, start: int, stop: int) -> Any:
        rows = self._table.column(name).slice(start, stop - start).combine_chunks()
        return rows.dictionary_decode() if hasattr(rows, "dictionary_decode") else rows

    def _has_gaps(self, name: str) -> bool:
        return bool(self._table.column(name).null_count)


def _read_arrow(arrow: Any, place: Place) -> Any:
    suffix = place.suffix.lower()
    if suffix in (".feather", ".arrow"):
        source = place.path_or_file()
        opened = arrow.memory_map(source) if isinstance(source, str) else source
        try:
            return arrow.ipc.open_file(opened).read_all()
        except arrow.ArrowInvalid:
            opened.seek(0)
            return arrow.ipc.open_stream(opened).read_all()
    size = place.status().size
    if size > _MAX_TEXT:
        raise LimitError(
            f"{place}: expected a text table of at most {_MAX_TEXT} bytes, found {size}: save it as Parquet"
        )
    csv = import_library("pyarrow.csv", "parquet")
    parsing = csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else _delimiter(place))
    converting = csv.ConvertOptions(null_values=["", "NA", "N/A", "null", "None", "-"], strings_can_be_null=False)
    return csv.read_csv(place.path_or_file(), parse_options=parsing, convert_options=converting)


def _delimiter(place: Place) -> str:
    """Return what separates the columns of a .csv file: the most frequent of three in its first line."""
    line = place.read(0, 1 << 16).split(b"\n", 1)[0].decode("utf-8", "replace")
    return max(",;\t", key=line.count)


class JsonArrays(Flat):
    """A JSON document: lists of numbers, of texts, or of objects, whose members become arrays "list/member"."""

    def __init__(self, place: Place) -> None:
        self._where = str(place)
        if place.suffix.lower() == ".json":
            document = place.read_json(_MAX_TEXT)
        else:
            text = place.read(0, _MAX_TEXT + 1)
            document = [parse_json(line, _MAX_TEXT, self._where) for line in text.splitlines() if line.strip()]
            if len(text) > _MAX_TEXT:
                raise LimitError(f"{place}: expected at most {_MAX_TEXT} bytes, found more: save it as Parquet")
        self._values = dict(_flatten(document, "", 0))
        if len(self._values) > _MAX_COLUMNS:
            raise LimitError(f"{place}: expected at most {_MAX_COLUMNS} arrays, found {len(self._values)}")
        self.column = cache(self._open)  # type: ignore[method-assign]

    def paths(self, group: str = "") -> list[str]:
        """Return the paths of the values below a member."""
        prefix = f"{group}/" if group else ""
        return [path.removeprefix(prefix) for path in self._values if path.startswith(prefix)]

    def column(self, path: str) -> RowArray:
        """Return the array of a path; raises FormatError."""
        return self._open(path)

    def _open(self, path: str) -> RowArray:
        if path not in self._values:
            raise FormatError(f"{self._where}: expected {path!r}, found {', '.join(self._values) or 'nothing'}")
        value = self._values[path]
        flat = value if isinstance(value, list) else [value]
        if any(isinstance(one, str) for one in flat):
            texts = _objects(["" if one is None else str(one) for one in flat])
            return (
                RowView((len(texts),), TEXTS, lambda start, stop: texts[start:stop])
                if value is flat
                else as_column(np.array(str(value)))
            )
        try:
            array = np.array(_without_null(value))
        except ValueError as error:
            raise FormatError(f"{self._where}: {path!r}: expected rows of one shape: {error}") from None
        if array.dtype.kind not in "biuf":
            raise FormatError(f"{self._where}: {path!r}: expected numbers or texts, found {json.dumps(value)[:60]}")
        return as_column(array)


def _without_null(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_null(one) for one in value]
    return np.nan if value is None else value


def _are_objects(value: Any) -> bool:
    """Return True for a list of objects, some of which may be null."""
    kinds = {type(one) for one in value} if isinstance(value, list) else set()
    return dict in kinds and kinds <= {dict, type(None)}


def _flatten(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of the members of objects; a list of objects gives a list per member."""
    if depth > _MAX_DEPTH:
        raise LimitError(f"{path}: expected objects in objects at most {_MAX_DEPTH} deep, found more")
    prefix = f"{path}/" if path else ""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _flatten(member, f"{prefix}{name}", depth + 1)
    elif _are_objects(value):
        names: Mapping[str, None] = dict.fromkeys(name for one in value for name in one or ())
        for name in names:
            yield from _flatten([(one or {}).get(name) for one in value], f"{prefix}{name}", depth + 1)
    elif not isinstance(value, list) or not value or any(one is not None for one in value):
        yield path, value  # without the members that all objects of a list lack
