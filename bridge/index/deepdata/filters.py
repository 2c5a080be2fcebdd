"""Translate a filter for the server: one key and one operator per object, several under $and.

The translation never excludes a matching episode; it may include others, and each hit is checked against the catalog.
Comparisons that the server may evaluate differently (ordered text, unequal text, mutable tags and notes, negations) are
left to that check, and values that JSON cannot represent are moved to the nearest ones.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from catalog.filters.where import AllOf, AnyOf, Compare, Where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog.records import EpisodeRow
    from catalog.values import Scalar

_TEXTS: Final = ("uid", "episode_id", "env_id")
_NUMBERS: Final[Mapping[str, str]] = {"length": "length_T", "total_reward": "total_reward", "success": "success"}
_OPERATORS: Final[Mapping[str, str]] = {
    "in": "$in",
    "lt": "$lte",  # a value just below may have been moved onto the bound
    "le": "$lte",
    "gt": "$gte",
    "ge": "$gte",
}
_EXACT: Final = 2**53
_LARGEST: Final = sys.float_info.max

LIVE: Final[Mapping[str, Any]] = {"live": 1}
"""Matches every document: with it the server returns top_k documents; without, deleted ones take places."""


def metadata(row: EpisodeRow) -> dict[str, str | int | float]:
    """Return the filterable fields of a document: those that never change during the life of its vector.

    Missing ones are omitted, since no comparison matches a missing value; flags are 0 and 1.
    """
    fields: dict[str, str | int | float] = {name: getattr(row, name) for name in _TEXTS}
    for name, key in _NUMBERS.items():
        value = getattr(row, name)
        if value is not None:
            fields[key] = _number(value)
    return fields


def compile_where(where: Where) -> dict[str, Any] | None:
    """Return a filter in the syntax of the server that matches at least what `where` does; None matches everything."""
    match where:
        case Compare():
            return _compare(where)
        case AllOf(parts):
            conditions = [part for part in map(compile_where, parts) if part is not None]
            return {"$and": conditions} if len(conditions) > 1 else conditions[0] if conditions else None
        case AnyOf(parts):
            alternatives = [part for part in map(compile_where, parts) if part is not None]
            return {"$or": alternatives} if alternatives and len(alternatives) == len(parts) else None
    return None  # the negation of a filter that matches too much would match too little


def _compare(clause: Compare) -> dict[str, Any] | None:
    if clause.field in _NUMBERS and clause.op == "between":
        low, high = clause.values
        return compile_where(Compare(clause.field, "ge", low) & Compare(clause.field, "le", high))
    if clause.field in _NUMBERS and (clause.op == "eq" or clause.op in _OPERATORS):
        values: list[Scalar] = [_number(value) for value in clause.values if not isinstance(value, str)]
    elif clause.field in _TEXTS and clause.op in ("eq", "in"):
        values = [value for value in clause.values if value]
        if len(values) < len(clause.values):
            return None  # the behaviour of the server for empty text is unknown
    else:
        return None
    if not values:
        return None  # an `in` without values: the behaviour of the server is undefined
    key = _NUMBERS.get(clause.field, clause.field)
    if clause.op == "eq":
        return {key: values[0]}
    return {key: {_OPERATORS[clause.op]: values if clause.op == "in" else values[0]}}


def _number(value: Scalar) -> int | float:
    """Return the nearest number that JSON and float64 can represent; the order is preserved."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and abs(value) <= _EXACT:
        return value
    return max(-_LARGEST, min(float(value), _LARGEST))
