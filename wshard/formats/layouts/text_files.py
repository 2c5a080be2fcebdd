"""Text files, which are read whole: JSON documents, one in a file or one in each line, and tables, csv and tsv."""

from __future__ import annotations

import json
import math
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.place import parse_json
from wshard.core.messages import shown
from wshard.core.plugins import import_library
from wshard.errors import ArrayKindError, FormatError, FormatWarning, LayoutError, LimitError
from wshard.formats.layouts.columns import Flat, as_column, as_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.files.place import Place
    from wshard.formats.layouts.columns import RowArray

_MAX_JSON: Final = 1 << 28
"""Bytes of a file of JSON, whose values take some times as many in memory."""

_MAX_TABLE: Final = 1 << 30
_HEAD: Final = 1 << 16  # bytes that show how a table is written
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_COMMA: Final = re.compile(rb"(?m)(?:^|[;\t])-?\d+,\d+(?=[;\t\r\n])")
_POINT: Final = re.compile(rb"(?m)(?:^|[;\t])-?\d+\.\d+(?=[;\t\r\n])")
_TEXT_TYPES: Final = ("string", "large_string")
_NONE: Final = ("", "NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "none", "-")  # cells without a number
_LOOKED_AT: Final = 1000  # rows of a column of texts that show whether it is one of numbers
_MOSTLY: Final = 0.9
_PARTLY: Final = 0.5
_MANY: Final = 20  # different numbers, as labels do not have

_MAX_DEPTH: Final = 16
_MAX_CELLS: Final = 1 << 25
_MAX_ARRAYS: Final = 4096


class JsonArrays(Flat):
    """Lists of numbers, of texts, or of objects, whose members become arrays "list/member".

    batches: the lists of all documents are joined.
    """

    def __init__(self, place: Place, *, batches: bool = False) -> None:
        self._where = str(place)
        document = _read(place)
        self._values = dict(_flatten(document, "", 0))
        lists = [document] if isinstance(document, list) else self._values.values()
        self.count = next((len(one) for one in lists if isinstance(one, list)), 0)
        if len(self._values) > _MAX_ARRAYS:
            raise LimitError(f"{place}: expected at most {_MAX_ARRAYS} arrays, found {len(self._values)}")
        if batches and isinstance(document, list):
            self._values = {path: _joined(values) for path, values in self._values.items()}
        self.column = cache(self._open)  # type: ignore[method-assign]

    def paths(self, group: str = "") -> list[str]:
        """Return the paths of the values below a member."""
        prefix = f"{group}/" if group else ""
        return [path.removeprefix(prefix) for path in self._values if path.startswith(prefix)]

    def column(self, path: str) -> RowArray:
        """Return the array of a path; raises FormatError."""
        return self._open(path)

    def cell(self, path: str, row: int) -> RowArray:
        """Return the value that one of several documents has at a path, as an array; raises FormatError."""
        values = self._values[path]
        if not isinstance(values, list) or row >= len(values):
            raise FormatError(f"{self._where}: {path!r}: expected a value in each document, found none in {row}")
        return self._array(path, values[row])

    def _open(self, path: str) -> RowArray:
        if path not in self._values:
            raise FormatError(f"{self._where}: expected {path!r}, found {', '.join(self._values) or 'nothing'}")
        return self._array(path, self._values[path])

    def _array(self, path: str, value: Any) -> RowArray:
        if isinstance(value, str):
            return as_column(np.array(value))
        if isinstance(value, list) and any(isinstance(one, str) for one in value):
            if any(isinstance(one, float) for one in value):
                row, text = next((row, one) for row, one in enumerate(value) if isinstance(one, str))
                raise ArrayKindError(f"{self._where}: {path!r}: expected numbers, found {shown(text)} in row {row}")
            texts = [(row, one) for row, one in enumerate(value) if isinstance(one, str)]
            if len(texts) <= (1 - _MOSTLY) * len(value):
                _warn_of_texts(f"{self._where}: {path!r}", *texts[0])
            return as_texts(["" if one is None else str(one) for one in value])
        try:
            array = np.array(_without_null(value))
        except (ValueError, RecursionError, OverflowError):
            raise ArrayKindError(
                f"{self._where}: {path!r}: expected rows of one shape, found lists of others"
            ) from None
        if array.dtype.kind not in "biuf":
            raise ArrayKindError(f"{self._where}: {path!r}: expected numbers or texts, found {json.dumps(value)[:60]}")
        return as_column(array)


def _joined(values: list[Any]) -> list[Any]:
    """Return the rows of all documents; values that are no lists stay as they are."""
    if all(isinstance(value, list) or value is None for value in values):
        return [row for value in values for row in value or ()]
    return values


def _read(place: Place) -> Any:
    """Return the document of a file, or the list of those in its lines, whatever its suffix says."""
    text = place.read(0, _MAX_JSON + 1)
    if len(text) > _MAX_JSON:
        raise LimitError(f"{place}: expected at most {_MAX_JSON} bytes, found more: save it as Parquet")
    lines = [line for line in text.splitlines() if line.strip()]
    if place.suffix.lower() == ".json" and not (len(lines) > 1 and _is_document(lines[0])):
        return parse_json(text, _MAX_JSON, str(place), unique=True)
    return [parse_json(line, _MAX_JSON, str(place), unique=True) for line in lines]


def _is_document(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


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
        if len(value) * len(names) > _MAX_CELLS:
            found = f"{len(value)} rows of {len(names)} members"
            raise LimitError(
                f"{path or 'rows'}: expected at most {_MAX_CELLS} values, found {found}: save it as Parquet"
            )
        for name in names:
            yield from _flatten([(one or {}).get(name) for one in value], f"{prefix}{name}", depth + 1)
    elif not isinstance(value, list) or not value or any(one is not None for one in value):
        yield path, value  # without the members that all objects of a list lack


def read_text_table(place: Place, skipped: int) -> Any:
    """Return an Arrow table of a file, without the lines skipped at its begin; raises FormatError, LimitError."""
    size = place.status().size
    if size > _MAX_TABLE:
        raise LimitError(
            f"{place}: expected a text table of at most {_MAX_TABLE} bytes, found {size}: save it as Parquet"
        )
    head = place.read(0, _HEAD)
    if head.startswith(_UTF16):
        raise FormatError(f"{place}: expected a text table in UTF-8, found UTF-16: save it as CSV UTF-8")
    csv = import_library("pyarrow.csv", "parquet")
    reading = csv.ReadOptions(skip_rows=skipped)
    delimiter = "\t" if place.suffix.lower() == ".tsv" else _delimiter(place, skipped)
    parsing = csv.ParseOptions(delimiter=delimiter)
    has_commas = delimiter != "," and _COMMA.search(head) is not None and _POINT.search(head) is None
    converting = csv.ConvertOptions(
        null_values=_NONE,
        strings_can_be_null=False,
        decimal_point="," if has_commas else ".",
    )
    table = csv.read_csv(place.path_or_file(), reading, parsing, converting)
    _check_text(table, place)
    return table


def _check_text(table: Any, place: Place) -> None:
    """Raise FormatError for a text table that would be read as another one than was meant."""
    names = [name for name in table.column_names if name]
    are_numbers = [_is_text_of_number(name) for name in names]
    if (
        names
        and all(are_numbers)
        and names not in ([*map(str, range(len(names)))], [*map(str, range(1, len(names) + 1))])
    ):
        raise LayoutError(f"{place}: expected names of columns in the first line, found numbers: add a line of names")
    texts = [
        table.column(name)
        for name, type_ in zip(table.column_names, table.schema.types, strict=True)
        if str(type_) in _TEXT_TYPES
    ]
    if texts and len(texts) == len(names) and table.num_rows > 1:
        pairs = [(column[0].as_py(), column[1].as_py()) for column in texts]
        if any(_is_text_of_number(below) and not _is_text_of_number(unit) for unit, below in pairs):
            raise FormatError(
                f"{place}: expected numbers below the names, found {shown(pairs[0][0])}: delete the line of units"
            )
    for name, type_ in zip(table.column_names, table.schema.types, strict=True):
        if str(type_) in _TEXT_TYPES:
            _check_numbers(name, table.column(name), place)
    has_lines = any(
        b"\n" in memoryview(part.buffers()[2] or b"").tobytes() for column in texts for part in column.chunks
    )
    if has_lines and place.read(0, _MAX_TABLE).count(b'"') % 2:
        raise FormatError(f"{place}: expected a second quote for each, found a text that is never closed")


def _check_numbers(name: str, column: Any, place: Place) -> None:
    """Raise FormatError for a column of decimal numbers with a text among them, which would be read as texts.

    Whole numbers may be names, such as those of episodes: of them, a FormatWarning says that they are read as texts.
    """
    texts = [text for text in column.slice(0, _LOOKED_AT).to_pylist() if text not in _NONE]
    numbers = [text for text in texts if _is_text_of_number(text)]
    are_decimal = any("." in text for text in numbers)
    least = _PARTLY if are_decimal and len(set(numbers)) > _MANY else _MOSTLY
    if not numbers or len(numbers) < least * len(texts):
        return
    for row, text in enumerate(column.to_pylist()):
        if text not in _NONE and not _is_text_of_number(text):
            if not are_decimal:
                _warn_of_texts(f"{place}: column {name!r}", row, text)
                return
            raise FormatError(
                f"{place}: column {name!r}: expected numbers, found {shown(text)} in row {row}, counted from 0: "
                "leave cells without a number empty"
            )


def _warn_of_texts(where: str, row: int, text: str) -> None:
    warnings.warn(
        f"{where}: read as texts, as {shown(text)} in row {row}, counted from 0, is no number: leave cells without a "
        "number empty",
        FormatWarning,
        stacklevel=4,
    )


def _is_text_of_number(text: str) -> bool:
    try:
        return math.isfinite(float(text.replace(",", ".")))
    except ValueError:
        return False


def _delimiter(place: Place, line_number: int) -> str:
    """Return what separates the columns of a .csv file: the most frequent of three in the line of their names."""
    lines = place.read(0, _HEAD).split(b"\n", line_number + 1)
    line = lines[min(line_number, len(lines) - 1)].decode("utf-8", "replace")
    return max(",;\t", key=line.count)
