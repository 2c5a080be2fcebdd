"""JSON documents as arrays: one in a file, or one in each line."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.place import parse_json
from wshard.errors import FormatError, LimitError
from wshard.formats.layouts.columns import Flat, as_column, as_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.files.place import Place
    from wshard.formats.layouts.columns import RowArray

_MAX_TEXT: Final = 1 << 30
"""Bytes of a file that is read whole."""

_MAX_DEPTH: Final = 16
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
        return self._array(path, self._values[path][row])

    def _open(self, path: str) -> RowArray:
        if path not in self._values:
            raise FormatError(f"{self._where}: expected {path!r}, found {', '.join(self._values) or 'nothing'}")
        return self._array(path, self._values[path])

    def _array(self, path: str, value: Any) -> RowArray:
        if isinstance(value, str):
            return as_column(np.array(value))
        if isinstance(value, list) and any(isinstance(one, str) for one in value):
            return as_texts(["" if one is None else str(one) for one in value])
        try:
            array = np.array(_without_null(value))
        except ValueError as error:
            raise FormatError(f"{self._where}: {path!r}: expected rows of one shape: {error}") from None
        if array.dtype.kind not in "biuf":
            raise FormatError(f"{self._where}: {path!r}: expected numbers or texts, found {json.dumps(value)[:60]}")
        return as_column(array)


def _joined(values: list[Any]) -> list[Any]:
    """Return the rows of all documents; values that are no lists stay as they are."""
    if all(isinstance(value, list) or value is None for value in values):
        return [row for value in values for row in value or ()]
    return values


def _read(place: Place) -> Any:
    """Return the document of a file, or the list of those in its lines, whatever its suffix says."""
    text = place.read(0, _MAX_TEXT + 1)
    if len(text) > _MAX_TEXT:
        raise LimitError(f"{place}: expected at most {_MAX_TEXT} bytes, found more: save it as Parquet")
    lines = [line for line in text.splitlines() if line.strip()]
    if place.suffix.lower() == ".json" and not (len(lines) > 1 and _is_document(lines[0])):
        return parse_json(text, _MAX_TEXT, str(place))
    return [parse_json(line, _MAX_TEXT, str(place)) for line in lines]


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
        for name in names:
            yield from _flatten([(one or {}).get(name) for one in value], f"{prefix}{name}", depth + 1)
    elif not isinstance(value, list) or not value or any(one is not None for one in value):
        yield path, value  # without the members that all objects of a list lack
