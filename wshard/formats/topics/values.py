"""Decoded messages as flat mappings: the path of a field, its parts joined by "/", and the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LATEST: Final = (1 << 63) - 1
_MAX_DEPTH: Final = 64
_MAX_STRUCTS: Final = 4096


TIME_DTYPE: Final = np.dtype("M8[ns]")
"""The dtype of arrays of times and durations."""


SECOND: Final = 1_000_000_000
"""In nanoseconds."""


class Stamp(int):
    """A time or duration in nanoseconds."""

    __slots__ = ()

    @classmethod
    def of_seconds(cls, seconds: int, nanoseconds: int) -> Stamp:
        """Return the stamp, or the nearest one of those that int64 has."""
        return cls(max(-_LATEST - 1, min(_LATEST, seconds * SECOND + nanoseconds)))


def flatten_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers and arrays of them, texts, tuples of texts, Stamps, arrays of TIME_DTYPE and bytes by path.

    Fields of structs in a list become arrays of one value a struct, where all of them have it in the same shape.
    """
    return dict(_walk(message, "", 0))


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _walk(item, f"{path}/{name}" if path else str(name), depth + 1)
    elif isinstance(value, list):
        yield from _walk_list(value, path, depth)
    elif value is not None:
        yield path, value


def _walk_list(items: list[Any], path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if not items or (len(items) > _MAX_STRUCTS and isinstance(items[0], dict)):
        return
    if all(isinstance(item, str) for item in items):
        yield path, tuple(items)
    elif isinstance(items[0], dict):
        rows = [dict(_walk(item, "", depth + 1)) for item in items]
        for name, first in rows[0].items():
            column = [row.get(name) for row in rows]
            if isinstance(first, str) and all(isinstance(item, str) for item in column):
                yield f"{path}/{name}", tuple(column)
            elif not isinstance(first, (str, bytes, tuple)):
                yield from _stack(column, f"{path}/{name}")
    else:
        yield from _stack(items, path)


def _stack(items: list[Any], path: str) -> Iterator[tuple[str, Any]]:
    if items and all(isinstance(item, Stamp) for item in items):
        yield path, np.array(items, np.int64).view(TIME_DTYPE)
    elif not any(item is None for item in items) and len({np.shape(item) for item in items}) == 1:
        array = np.array(items)
        if array.dtype.kind in "biuf":
            yield path, array
