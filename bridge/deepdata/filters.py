"""A filter as the server understands it: one key and one operator per object, several under $and.

Knows: which metadata a document carries, and where the server's answer to a filter can be trusted. Does not know: how
hits are checked afterwards.

What is compiled never leaves out an episode that passes; it may let others through, and whoever searches checks every
hit against the catalog. So comparisons that the server may answer differently (text by order, text that is not equal,
tags, which change) are left to that check, and values that the wire cannot carry are moved to the nearest ones.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog.filters import Compare, Where
    from catalog.records import EpisodeRow, Scalar

_TEXTS: Final = ("uid", "episode_id", "env_id")
_NUMBERS: Final[Mapping[str, str]] = {"length": "length_T", "total_reward": "total_reward", "success": "success"}
_OPERATORS: Final[Mapping[str, str]] = {
    "eq": "$eq",
    "in": "$in",
    "lt": "$lte",  # a value just below may have been moved onto the bound
    "le": "$lte",
    "gt": "$gte",
    "ge": "$gte",
}
_EXACT: Final = 2**53
_LARGEST: Final = sys.float_info.max

LIVE: Final[Mapping[str, Any]] = {"live": {"$eq": 1}}
"""What every document meets: with a filter the server finds as many as asked; without, deleted ones take places."""


@dataclass(frozen=True)
class Compiled:
    """filters: what to send, None for nothing. whole: the server's answer needs no narrowing."""

    filters: Mapping[str, Any] | None
    whole: bool


def metadata(row: EpisodeRow) -> dict[str, str | int | float]:
    """Return the filterable fields that a document carries: those that stay as long as its vector does.

    Missing ones are left out, for no comparison holds for a missing value; flags are 0 and 1.
    """
    fields: dict[str, str | int | float] = {name: getattr(row, name) for name in _TEXTS}
    for name, key in _NUMBERS.items():
        value = getattr(row, name)
        if value is not None:
            fields[key] = _number(value)
    return fields


def compile_where(where: Where) -> Compiled:
    """Return the filter in the server's words."""
    parts = [_clause(clause) for clause in where.clauses]
    sent = [part for part in parts if part is not None]
    filters = {"$and": sent} if len(sent) > 1 else sent[0] if sent else None
    return Compiled(filters, whole=len(sent) == len(parts))


def _clause(clause: Compare) -> dict[str, Any] | None:
    if clause.field in _NUMBERS and clause.op in _OPERATORS:
        values: list[Scalar] = [_number(value) for value in clause.values if not isinstance(value, str)]
    elif clause.field in _TEXTS and clause.op in ("eq", "in"):
        values = [value for value in clause.values if value]
        if len(values) < len(clause.values):
            return None  # nobody has seen what the server makes of empty text
    else:
        return None
    if not values:
        return None  # an `in` without values: the server would answer it, but not by a rule that is known
    key = _NUMBERS.get(clause.field, clause.field)
    return {key: {_OPERATORS[clause.op]: values if clause.op == "in" else values[0]}}


def _number(value: Scalar) -> int | float:
    """Return the nearest number that JSON and float64 carry; moving keeps the order."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and abs(value) <= _EXACT:
        return value
    return max(-_LARGEST, min(float(value), _LARGEST))
