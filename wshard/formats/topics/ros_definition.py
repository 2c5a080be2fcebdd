"""Definitions of ROS messages (.msg, with all that they refer to), read into fields."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError, LimitError

if TYPE_CHECKING:
    from collections.abc import Mapping

STAMPS: Final = frozenset({"builtin_interfaces/Time", "builtin_interfaces/Duration", "time", "duration"})
"""Types that count seconds and nanoseconds."""

HEADER: Final = "std_msgs/Header"

TEXTS: Final = frozenset({"string", "wstring"})

_NUMBERS: Final = {
    "bool": "?",
    "byte": "u1",
    "char": "u1",
    "float32": "f4",
    "float64": "f8",
    **{f"{sign}int{8 * size}": f"{sign or 'i'}{size}" for sign in ("", "u") for size in (1, 2, 4, 8)},
}
_MAX_TEXT: Final = 1 << 20
_MAX_DEPTH: Final = 32
_SEPARATOR: Final = re.compile(r"^={3,}\s*$", re.MULTILINE)
_TITLE: Final = re.compile(r"\s*MSG:\s*(\S+)\s*\n")
_FIELD: Final = re.compile(r"([A-Za-z][\w/]*)(?:<=\d+)?(\[(?:(\d+)|(?:<=\d+)?)\])?\s+([A-Za-z]\w*)(\s*=)?")


@dataclass(frozen=True)
class RosField:
    """A field. dtype: of numbers. size: of an array of fixed size, else 0."""

    name: str
    type: str
    dtype: np.dtype[Any] | None
    is_list: bool
    size: int


Definitions = dict[str, tuple[RosField, ...]]


def read_definitions(type_name: str, text: str, *, ros1: bool) -> tuple[str, Definitions]:
    """Return the short name of a type, "package/Name", and the fields of all types that its definition brings.

    Raises FormatError for an invalid definition, and for a type that is missing or contains itself.
    """
    if len(text) > _MAX_TEXT:
        raise LimitError(f"definition of {type_name[:80]!r}: expected at most {_MAX_TEXT} characters")
    found: Definitions = {}
    root = short_name(type_name)
    for number, part in enumerate(_SEPARATOR.split(text)):
        title = _TITLE.match(part)
        if number and title is None:
            raise FormatError(f"definition of {root!r}: expected 'MSG: type' after a line of ===")
        name = short_name(title[1]) if title is not None else root
        found[name] = _read_fields(name, part[title.end() :] if title else part, ros1=ros1)
    _check(root, found, 0)
    return root, found


def short_name(name: str) -> str:
    """Return "package/Name" of "package/msg/Name"."""
    parts = name.split("/")
    return f"{parts[0]}/{parts[-1]}" if len(parts) > 1 else name


def _read_fields(owner: str, text: str, *, ros1: bool) -> tuple[RosField, ...]:
    fields = []
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "@")):
            continue
        match = _FIELD.match(stripped)
        if match is None:
            raise FormatError(f"definition of {owner!r}: expected a type and a name, found {stripped[:80]!r}")
        kind, array, size, name, constant = match.groups()
        if not constant:
            fields.append(RosField(name, *_type_of(kind, owner, ros1=ros1), array is not None, int(size or 0)))
    return tuple(fields)


def _type_of(kind: str, owner: str, *, ros1: bool) -> tuple[str, np.dtype[Any] | None]:
    if kind in _NUMBERS:
        return kind, np.dtype("i1" if ros1 and kind == "byte" else _NUMBERS[kind])
    if kind in TEXTS or (ros1 and kind in STAMPS):
        return kind, None
    if "/" in kind:
        return short_name(kind), None
    return (HEADER if kind == "Header" else f"{owner.split('/', maxsplit=1)[0]}/{kind}"), None


def _check(name: str, found: Mapping[str, tuple[RosField, ...]], depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise FormatError(f"definition of {name!r}: expected types in at most {_MAX_DEPTH} levels, found a cycle")
    for field in found[name]:
        if field.dtype is not None or field.type in TEXTS | STAMPS:
            continue
        if field.type not in found:
            raise FormatError(f"definition of {name!r}: expected that of {field.type!r} with it, found none")
        _check(field.type, found, depth + 1)
