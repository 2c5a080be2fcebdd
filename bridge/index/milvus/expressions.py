"""Filters in the language of Milvus."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPERATORS: Final = {"$lte": "<=", "$gte": ">="}
_JOINTS: Final = {"$and": " and ", "$or": " or "}
_PLAIN: Final = re.compile(r"[\w .:/#@+-]*", re.ASCII)


def expression(filters: Mapping[str, Any] | None) -> str:
    """Return what matches at least what the filters do, which are those of deepdata.filters; "" matches everything.

    Text that would have to be escaped is left out, since servers differ in how they read it.
    """
    parts = [_part(name, value) for name, value in (filters or {}).items()]
    return " and ".join(part for part in parts if part)


def _part(name: str, value: Any) -> str:
    if name in _JOINTS:
        parts = [expression(one) for one in value]
        if name == "$or" and not all(parts):
            return ""
        return _JOINTS[name].join(f"({part})" for part in parts if part)
    if not isinstance(value, dict):
        return _compare(name, "==", value)
    ((operator, bound),) = value.items()
    if operator == "$in":
        literals = [_literal(one) for one in bound]
        return f"{name} in [{', '.join(literals)}]" if all(literals) else ""
    return _compare(name, _OPERATORS[operator], bound)


def _compare(name: str, operator: str, value: Any) -> str:
    literal = _literal(value)
    return f"{name} {operator} {literal}" if literal else ""


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"' if _PLAIN.fullmatch(value) else ""
    return repr(value)
