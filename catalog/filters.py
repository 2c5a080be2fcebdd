"""The one typed filter value of the project, and its meaning in plain Python.

Knows: the filterable fields, their types, the operators, and `matches`, with which every backend must agree. Does not
know: SQL or any index. A Where is a conjunction; richer clauses can join Compare in the tuple later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from types import MappingProxyType
from typing import Any

from catalog.records import INTEGER_LIMIT, EpisodeRow, Scalar, storable
from wshard.errors import FilterError

FIELDS: Mapping[str, type] = MappingProxyType(
    {
        "uid": str,
        "episode_id": str,
        "env_id": str,
        "key": str,
        "length": int,
        "total_reward": float,
        "success": bool,
        "tag": str,
    }
)
"""Filterable field -> type of its values. `tag` holds when the episode carries that tag."""

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}
)
"""Operators between the field and one value; `in` (any of several values) is the only other one."""

UNORDERED = frozenset({"success", "tag"})
"""Fields that know only eq, ne and in."""


@dataclass(frozen=True)
class Compare:
    """One comparison of a field with a value, or with several for `in` (an empty `in` matches nothing).

    Text compares by code point. A missing reward or success matches no comparison, `ne` included. Raises FilterError
    for an unknown field or operator and for a value of the wrong type (a bool is no number, NaN is no value).
    """

    field: str
    op: str
    value: Scalar | Collection[Scalar]

    def __post_init__(self) -> None:
        if self.field not in FIELDS:
            raise FilterError(f"expected a field among {', '.join(FIELDS)}, found {self.field!r}")
        known = ("eq", "ne", "in") if self.field in UNORDERED else (*OPERATORS, "in")
        if self.op not in known:
            raise FilterError(f"expected an operator among {', '.join(known)} for {self.field}, found {self.op!r}")
        if self.op != "in":
            object.__setattr__(self, "value", _normal(self.field, self.value))
            return
        if isinstance(self.value, str | bytes) or not isinstance(self.value, Collection):
            raise FilterError(f"expected several values for {self.field} in, found {self.value!r}")
        object.__setattr__(self, "value", tuple(_normal(self.field, value) for value in self.value))

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The accepted values, of which eq and in must meet one."""
        return self.value if isinstance(self.value, tuple) else (self.value,)


@dataclass(frozen=True)
class Where:
    """All clauses must hold; `Where()` matches every episode."""

    clauses: tuple[Compare, ...] = ()

    def __and__(self, other: Where) -> Where:
        return Where(self.clauses + other.clauses)


EVERYTHING = Where()


def build_where(
    *,
    env_id: str | Sequence[str] | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    reward_range: tuple[float | None, float | None] | None = None,
    success: bool | None = None,
    tag: str | Sequence[str] | None = None,
) -> Where:
    """Build the common filters; None leaves a field free, ranges are inclusive, several names mean any of them."""
    low, high = reward_range or (None, None)
    wanted = (
        ("env_id", "eq" if isinstance(env_id, str) else "in", env_id),
        ("length", "ge", min_length),
        ("length", "le", max_length),
        ("total_reward", "ge", low),
        ("total_reward", "le", high),
        ("success", "eq", success),
        ("tag", "eq" if isinstance(tag, str) else "in", tag),
    )
    return Where(tuple(Compare(field, op, value) for field, op, value in wanted if value is not None))


def matches(where: Where, row: EpisodeRow) -> bool:
    """Say whether the episode meets every clause."""
    return all(_meets(clause, row) for clause in where.clauses)


def _meets(clause: Compare, row: EpisodeRow) -> bool:
    if clause.field == "tag":
        carries = any(value in row.tags for value in clause.values)
        return carries != (clause.op == "ne")
    found = getattr(row, clause.field)
    if found is None:
        return False
    if clause.op == "in":
        return found in clause.values
    return OPERATORS[clause.op](found, clause.value)


def _normal(field: str, value: object) -> Scalar:
    """Return the value as the field's own type; integers beyond 64 bits become the nearest one, which no length has."""
    wanted = FIELDS[field]
    if wanted is str and isinstance(value, str) and storable(value):
        return value
    if wanted is bool and isinstance(value, bool):
        return value
    if wanted is int and isinstance(value, int) and not isinstance(value, bool):
        return max(-INTEGER_LIMIT, min(value, INTEGER_LIMIT))
    if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        number = _as_float(value)
        if not math.isnan(number):
            return number
    raise FilterError(f"expected a value of type {wanted.__name__} for {field}, found {value!r}")


def _as_float(value: float) -> float:
    """Return the nearest float; integers beyond its range become infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
