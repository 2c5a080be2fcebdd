"""Filters as values: comparisons, and, or, not.

A comparison with a missing value never matches, `ne` included; for metadata a value of another type counts as missing.
For a multi-valued field (such as tags) one of the values must match. `not` is plain negation: it matches exactly what
its part does not, so `~(F.success == True)` also matches an episode of unknown success.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from numbers import Real
from typing import Any, Final, NoReturn, TypeAlias

from catalog.filters.fields import TEXT_OPERATORS, Field, field_of
from catalog.filters.times import EXPECTED_TIME, normal_time
from catalog.full_text import words
from catalog.values import INTEGER_LIMIT, Scalar, comparable_number, storable
from wshard.core.messages import shown
from wshard.errors import FilterError

Value: TypeAlias = Scalar | tuple[Scalar, ...] | None

MAX_COMPARISONS: Final = 500
MAX_DEPTH: Final = 50
"""Limits that every database accepts in one statement; an `in` may have any number of values."""


class Where:
    """A filter: combine filters by & | ~."""

    __slots__ = ()

    def __and__(self, other: Where) -> Where:
        return all_of(self, other)

    def __or__(self, other: Where) -> Where:
        return any_of(self, other)

    def __invert__(self) -> Where:
        return negation(self)

    def __bool__(self) -> NoReturn:
        # `a and b`, `not a` and `0 < a < 1` would silently lose a part.
        raise FilterError(
            "expected filters combined by & | ~, found one used as true or false (and, or, not, a < x < b)"
        )


@dataclass(frozen=True)
class Compare(Where):
    """Comparison of a field with a value.

    op: eq ne lt le gt ge; in (any of several values; none of them matches nothing); between (low, high), both included;
    contains, startswith (text, by code point; for the field `text` a phrase, with "*" its last word is a prefix);
    exists (value None). Equal meanings are equal values: an `in` of one value is eq.

    Raises FilterError for an unknown field or operator and for a value of the wrong type (bool is not a number, NaN is
    not a value).
    """

    field: str
    op: str
    value: Any = None
    kind: str = member(init=False, repr=False)

    def __post_init__(self) -> None:
        field = field_of(self.field)
        if self.op not in field.operators:
            raise FilterError(
                f"expected an operator among {', '.join(field.operators)} for {field.name}, found {self.op!r}"
            )
        op, value = self.op, _normal_value(field, self.op, self.value)
        if op == "in" and isinstance(value, tuple) and len(value) == 1:
            op, value = "eq", value[0]
        kinds = {_kind(part) for part in (value if isinstance(value, tuple) else (value,))}
        for name, normalised in (("field", field.name), ("op", op), ("value", value), ("kind", "".join(sorted(kinds)))):
            object.__setattr__(self, name, normalised)

    @property
    def about(self) -> Field:
        """The parsed field."""
        return field_of(self.field)

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The values to compare with."""
        if self.op == "exists":
            return ()
        return self.value if isinstance(self.value, tuple) else (self.value,)


@dataclass(frozen=True)
class AllOf(Where):
    """Conjunction of filters; empty: matches everything. Made by & and all_of, which normalise it."""

    parts: tuple[Where, ...]

    def __post_init__(self) -> None:
        _check_parts(self, self.parts)


@dataclass(frozen=True)
class AnyOf(Where):
    """Disjunction of filters; empty: matches nothing. Made by | and any_of, which normalise it."""

    parts: tuple[Where, ...]

    def __post_init__(self) -> None:
        _check_parts(self, self.parts)


@dataclass(frozen=True)
class Not(Where):
    """Negation: matches exactly what its part does not. Made by ~, which normalises it."""

    part: Where

    def __post_init__(self) -> None:
        if not isinstance(self.part, Where) or isinstance(self.part, Not) or self.part in (EVERYTHING, NOTHING):
            raise FilterError(f"expected a filter that is not negated or constant, found {self.part!r}; use ~")
        _check_size(self)


def all_of(*parts: Where) -> Where:
    """Return the filter that matches if every part does."""
    flat = _flatten(AllOf, parts)
    if NOTHING in flat:
        return NOTHING
    return flat[0] if len(flat) == 1 else AllOf(flat)


def any_of(*parts: Where) -> Where:
    """Return the filter that matches if any part does."""
    flat = _flatten(AnyOf, parts)
    if EVERYTHING in flat:
        return EVERYTHING
    return flat[0] if len(flat) == 1 else AnyOf(flat)


def negation(part: Where) -> Where:
    """Return the filter that matches exactly what the part does not."""
    if isinstance(part, Not):
        return part.part
    if part in (EVERYTHING, NOTHING):
        return NOTHING if part == EVERYTHING else EVERYTHING
    return Not(part)


def build_where(
    *,
    env_id: str | Sequence[str] | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    reward_range: tuple[float | None, float | None] | None = None,
    success: bool | None = None,
    tag: str | Sequence[str] | None = None,
) -> Where:
    """Build the common filters; None means no condition, ranges are inclusive, several names mean any of them."""
    low, high = _bounds(reward_range)
    for name, names in (("env_id", env_id), ("tag", tag)):
        if names is not None and not isinstance(names, str | Collection):
            raise FilterError(f"{name}: expected a name or several names, found {shown(names)}")
    conditions = (
        ("env_id", "eq" if isinstance(env_id, str) else "in", env_id),
        ("length", "ge", min_length),
        ("length", "le", max_length),
        ("total_reward", "ge", low),
        ("total_reward", "le", high),
        ("success", "eq", success),
        ("tag", "eq" if isinstance(tag, str) else "in", tag),
    )
    return all_of(*(Compare(name, op, value) for name, op, value in conditions if value is not None))


def _bounds(reward_range: Any) -> tuple[Any, Any]:
    pair = (None, None) if reward_range is None else reward_range
    listed = list(pair) if isinstance(pair, Iterable) else []
    if len(listed) != 2:
        raise FilterError(f"reward_range: expected (low, high), None = open, found {shown(reward_range)}")
    low, high = listed
    if isinstance(low, Real) and isinstance(high, Real) and low > high:
        raise FilterError(f"reward_range: expected (low, high), found a low end above the high one: {shown(listed)}")
    return low, high


def parts_of(where: Where) -> tuple[Where, ...]:
    """Return the filters that must all hold: those of an AllOf, else the filter itself."""
    return where.parts if isinstance(where, AllOf) else (where,)


def comparisons(where: Where) -> Iterator[Compare]:
    """Yield every comparison in the filter, from left to right."""
    if isinstance(where, Compare):
        yield where
    elif isinstance(where, Not):
        yield from comparisons(where.part)
    elif isinstance(where, AllOf | AnyOf):
        for part in where.parts:
            yield from comparisons(part)


def _flatten(class_: type[AllOf | AnyOf], parts: Sequence[Where]) -> tuple[Where, ...]:
    for part in parts:
        if not isinstance(part, Where):
            raise FilterError(f"expected a filter, found {part!r}")
    return tuple(inner for part in parts for inner in (part.parts if isinstance(part, class_) else (part,)))


def _check_parts(where: AllOf | AnyOf, parts: Sequence[Where]) -> None:
    invalid = [part for part in parts if not isinstance(part, Where) or isinstance(part, type(where))]
    if len(parts) == 1 or invalid or any(isinstance(part, AllOf | AnyOf) and not part.parts for part in parts):
        raise FilterError(f"expected several filters of other kinds, found {parts!r}; use & and |")
    _check_size(where)


def _check_size(where: Where) -> None:
    if (count := sum(1 for _ in comparisons(where))) > MAX_COMPARISONS:
        raise FilterError(
            f"expected at most {MAX_COMPARISONS} comparisons, found {count}: several values of a field fit in one `in`"
        )
    if (depth := _depth(where)) > MAX_DEPTH:
        raise FilterError(f"expected a filter at most {MAX_DEPTH} levels deep, found {depth}")


def _depth(where: Where) -> int:
    if isinstance(where, Not):
        return 1 + _depth(where.part)
    return 1 + max(map(_depth, where.parts), default=0) if isinstance(where, AllOf | AnyOf) else 1


def _normal_value(field: Field, op: str, value: object) -> Value:
    if op == "exists":
        if value is not None:
            raise FilterError(f"expected no value for {field.name} exists, found {value!r}")
        return None
    if op not in ("in", "between"):
        return _normal_scalar(field, op, value)
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        raise FilterError(f"expected several values for {field.name} {op}, found {value!r}")
    values = tuple(_normal_scalar(field, op, part) for part in value)
    if op == "between" and len(values) != 2:
        raise FilterError(f"expected two values, low and high, for {field.name} between, found {value!r}")
    if len({_kind(part) for part in values}) > 1:
        raise FilterError(f"expected values of one type for {field.name} {op}, found {value!r}")
    return tuple(dict.fromkeys(values)) if op == "in" else values


def _kind(value: Value) -> str:
    if value is None:
        return ""
    return "flag" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _normal_scalar(field: Field, op: str, value: object) -> Scalar:
    """Return the value in the field's type; integers are clipped to 64 bits, which no stored length reaches."""
    to_python = getattr(value, "item", None)  # of numpy's scalars; the catalog does not import numpy
    value = to_python() if callable(to_python) else value
    if field.root == "text" and isinstance(value, str) and not words(value):
        raise FilterError(f"expected a word to search for in {field.name}, found {value!r}")
    if field.timed and op not in TEXT_OPERATORS:
        if (time := normal_time(value)) is None:
            raise FilterError(f"expected {EXPECTED_TIME} for {field.name}, found {shown(value)}")
        return time
    type_ = _value_type(field, op, value)
    if type_ is str and isinstance(value, str) and storable(value):
        return value
    if type_ is bool and isinstance(value, bool):
        return value
    if type_ is int and isinstance(value, int) and not isinstance(value, bool):
        return max(-INTEGER_LIMIT, min(value, INTEGER_LIMIT))
    if type_ is float and isinstance(value, int | float) and not isinstance(value, bool):
        number = _as_float(value) if field.root != "meta" else comparable_number(value)
        if number is not None and not math.isnan(number):
            return number
    expected = type_.__name__ if field.root != "meta" else "text, number or flag (ordered: text or number)"
    raise FilterError(f"expected a value of type {expected} for {field.name}, found {value!r}{field.advice}")


def _value_type(field: Field, op: str, value: object) -> type:
    if field.type is not None:
        return field.type
    if op in TEXT_OPERATORS or isinstance(value, str):
        return str
    return bool if isinstance(value, bool) and op in ("eq", "ne", "in") else float


def _as_float(value: float) -> float:
    """Return the nearest float; integers beyond its range become infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


EVERYTHING: Final = AllOf(())
NOTHING: Final = AnyOf(())
