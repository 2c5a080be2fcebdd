"""The messages of a topic as columns: a value a timestep of each field, in one shape and dtype; or why that is not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.formats.topics.values import TIME_DTYPE, Stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.types import Array

_MAX_TEXTS: Final = 1024
_LONGEST_TEXT: Final = 4096
_MAX_NUMBERS: Final = 4096  # of a field in a message: point clouds have more
_NAMES: Final = ("name", "names")
_MAX_FILLED: Final = 1 << 24  # numbers of a field that messages lack
_PACKED_KINDS: Final = (np.ndarray, Stamp)
_PACKED: Final = 1024  # values of a field that are packed into an array at once


@dataclass(frozen=True)
class TopicColumns:
    """Of a topic's messages: arrays of numbers and of times by path, texts that are the same in all, those that differ.

    texts: the number of the text in the list, and the list. left_out: why a path has no column.
    """

    numbers: dict[str, Array] = field(default_factory=dict)
    times: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, tuple[Array, list[str]]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def component_names(self, path: str, count: int) -> tuple[str, ...]:
        """Return the texts that name the numbers of a field: those of a field such as "name" or "joint_names" by it."""
        parent = path.rpartition("/")[0]
        for other, texts in self.constants.items():
            is_sibling = other.rpartition("/")[0] == parent and other.endswith(_NAMES)
            if is_sibling and isinstance(texts, list) and len(texts) == count:
                return tuple(texts)
        return ()


class _Column:
    """The values of one path, packed as they come."""

    def __init__(self) -> None:
        self.count = 0
        self.packed: list[Array] = []
        self.values: list[Any] = []
        self.problem = ""
        self.kind: type = object
        self.scalar: type | None = None
        self.gaps: list[tuple[int, int]] = []  # in front of which value, and how many messages lack one there
        self.rows = 0

    def add(self, value: Any, row: int) -> None:
        if row > self.rows:
            self._go_to(row)
        self.count, self.rows = self.count + 1, row + 1
        if self.problem:
            return
        if type(value) is not self.scalar:
            self.problem = self._find_problem(value)
        self.values.append(value)
        if self.kind in _PACKED_KINDS and len(self.values) >= _PACKED:
            self._pack()
        if self.problem:
            self.values, self.packed = [], []

    def _find_problem(self, value: Any) -> str:
        kind = type(value) if isinstance(value, (str, bytes, tuple, Stamp)) else np.ndarray
        if self.count == 1:
            self.kind, self.shape = kind, np.shape(value)
            self.scalar = type(value) if isinstance(value, (np.generic, Stamp)) else None
        if kind is not self.kind:
            return "its kind changes"
        if kind is bytes:
            return "bytes"
        if kind is np.ndarray and np.size(value) > _MAX_NUMBERS:
            return f"{np.size(value)} numbers a message, more than {_MAX_NUMBERS}"
        if kind is np.ndarray and np.shape(value) != self.shape:
            return f"its shape changes from {list(self.shape)} to {list(np.shape(value))}"
        if kind is str and len(value) > _LONGEST_TEXT:
            return f"a text of {len(value)} characters"
        return ""

    def _go_to(self, row: int) -> None:
        if row > self.rows:
            self.gaps.append((self.count, row - self.rows))

    def _pack(self) -> None:
        if self.values:
            self.packed.append(np.array(self.values))
            self.values = []

    def array(self) -> Array:
        self._pack()
        return np.concatenate(self.packed)

    def fill(self, rows: int) -> None:
        """Let NaN stand for the values that messages lack, of which there are `rows`, if it is of floats."""
        self._go_to(rows)
        if not self.gaps or self.problem:
            return
        array = self.array() if self.kind is np.ndarray else np.zeros(0, int)
        if array.dtype.kind != "f" or (rows - self.count) * math.prod(self.shape) > _MAX_FILLED:
            self.problem = "some messages lack it"
        else:
            places, counts = np.transpose(self.gaps)
            self.packed = [np.insert(array, np.repeat(places, counts), np.nan, axis=0)]


class ColumnsBuilder:
    """Makes the columns of messages, one a row; a field of floats that some messages lack is NaN there."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._rows = 0

    def add(self, message: Mapping[str, Any]) -> None:
        """Add a message, flat."""
        for path, value in message.items():
            if (column := self._columns.get(path)) is None:
                column = self._columns[path] = _Column()
            column.add(value, self._rows)
        self._rows += 1

    def finish(self) -> TopicColumns:
        """Return the columns."""
        found = TopicColumns()
        for path, column in self._columns.items():
            column.fill(self._rows)
            if column.problem:
                found.left_out[path] = column.problem
            else:
                _place(found, path, column)
        return found


def _place(ref: TopicColumns, path: str, column: _Column) -> None:
    if column.kind is np.ndarray:
        array = column.array()
        if array.dtype == TIME_DTYPE:
            ref.times[path] = array.view(np.int64)
        elif array.dtype.kind not in "biuf":
            ref.left_out[path] = f"values of {array.dtype}"
        elif array.size:
            ref.numbers[path] = array
    elif column.kind is Stamp:
        ref.times[path] = column.array().astype(np.int64)
    else:
        _place_texts(ref, path, column.values)


def _place_texts(found: TopicColumns, path: str, values: list[Any]) -> None:
    places: dict[Any, int] = {}
    numbers = [places.setdefault(value, len(places)) for value in values]
    if len(places) == 1:
        value = values[0]
        found.constants[path] = list(value) if isinstance(value, tuple) else value
    elif isinstance(values[0], tuple):
        found.left_out[path] = "lists of texts that change"
    elif len(places) > _MAX_TEXTS:
        found.left_out[path] = f"more than {_MAX_TEXTS} different texts"
    else:
        found.texts[path] = (np.array(numbers, np.int32), list(places))
