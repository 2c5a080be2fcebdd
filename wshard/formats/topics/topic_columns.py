"""The messages of a topic as columns: a value a timestep of each field, in one shape and dtype; or why that is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.formats.topics.values import Stamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wshard.core.types import Array

_MAX_TEXTS: Final = 1024
_LONGEST_TEXT: Final = 4096
_MAX_NUMBERS: Final = 4096  # of a field in a message: point clouds have more
_NAMES: Final = ("name", "names")
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

    def __init__(self, start: int) -> None:
        self.start = start
        self.count = 0
        self.packed: list[Array] = []
        self.values: list[Any] = []
        self.problem = ""
        self.kind: type = object

    def add(self, value: Any) -> None:
        self.count += 1
        if self.problem:
            return
        kind = type(value) if isinstance(value, (str, bytes, tuple, Stamp)) else np.ndarray
        if self.count == 1:
            self.kind, self.shape = kind, np.shape(value)
        if kind is not self.kind:
            self.problem = "its kind changes"
        elif kind is bytes:
            self.problem = "bytes"
        elif kind is np.ndarray and np.size(value) > _MAX_NUMBERS:
            self.problem = f"{np.size(value)} numbers a message, more than {_MAX_NUMBERS}"
        elif kind is np.ndarray and np.shape(value) != self.shape:
            self.problem = f"its shape changes from {list(self.shape)} to {list(np.shape(value))}"
        elif kind is str and len(value) > _LONGEST_TEXT:
            self.problem = f"a text of {len(value)} characters"
        self.values.append(value)
        if kind in (np.ndarray, Stamp) and len(self.values) >= _PACKED:
            self._pack()
        if self.problem:
            self.values, self.packed = [], []

    def _pack(self) -> None:
        if self.values:
            self.packed.append(np.array(self.values))
            self.values = []

    def array(self) -> Array:
        self._pack()
        return np.concatenate(self.packed)


def make_columns(messages: Iterable[dict[str, Any]]) -> TopicColumns:
    """Return the columns of messages, one a row; a field that some messages lack is NaN there if it is of floats."""
    columns: dict[str, _Column] = {}
    for count, message in enumerate(messages, 1):
        for path, value in message.items():
            columns.setdefault(path, _Column(count - 1)).add(value)
        for path, column in columns.items():
            if column.count + column.start < count and not column.problem and path not in message:
                _fill(column)
    found = TopicColumns()
    for path, column in columns.items():
        if column.start and not column.problem:
            column.problem = f"the first {column.start} messages lack it"
        if column.problem:
            found.left_out[path] = column.problem
        else:
            _place(found, path, column)
    return found


def _fill(column: _Column) -> None:
    """Stand in for a value that a message lacks."""
    last = column.values[-1] if column.values else column.packed[-1][-1]
    if column.kind is np.ndarray and np.asarray(last).dtype.kind == "f":
        column.add(np.full_like(last, np.nan))
    else:
        column.problem = "some messages lack it"


def _place(ref: TopicColumns, path: str, column: _Column) -> None:
    if column.kind is np.ndarray:
        array = column.array()
        if array.dtype.kind not in "biuf":
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
