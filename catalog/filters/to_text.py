"""Filters written as text, in the grammar of parse.py: `parse_where(where_text(w)) == w`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.filters.fields import Field, quoted
from catalog.filters.parse import FLAGS, KEYWORDS, NUMBER, VALUE, WORD
from catalog.filters.where import NOTHING, AllOf, AnyOf, Compare, Not, Where

if TYPE_CHECKING:
    from catalog.values import Scalar

_FORMS: Final = {
    "eq": "{}",
    "ne": "!={}",
    "lt": "<{}",
    "le": "..{}",
    "gt": ">{}",
    "ge": "{}..",
    "between": "{}..{}",
    "contains": "*{}*",
    "startswith": "{}*",
    "exists": "*",
}


def where_text(where: Where) -> str:
    """Return the filter as text; parsing it gives an equal value."""
    if where == NOTHING:
        return "-()"
    match where:
        case AllOf(parts):
            return " ".join(map(_inner, parts))
        case AnyOf(parts):
            return " OR ".join(where_text(part) for part in parts)
        case _:
            return _inner(where)


def _inner(where: Where) -> str:
    match where:
        case Not(part):
            return "-" + _inner(part)
        case Compare() if where.field == "text":
            return where.value if WORD.fullmatch(where.value) and where.value not in KEYWORDS else quoted(where.value)
        case Compare():
            return f"{where.about.short}:{comparison_text(where)}"
        case _:
            return f"({where_text(where)})"


def comparison_text(clause: Compare) -> str:
    """Return the text after `field:`."""
    values = [_value_text(value, clause.about) for value in clause.values]
    if clause.field == "text":
        return values[0]
    if clause.op == "in":
        return ",".join(values) or "()"
    return _FORMS[clause.op].format(*values)


def _value_text(value: Scalar, field: Field) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    is_bare = VALUE.fullmatch(value) is not None and value.isprintable() and not value.startswith(".")
    looks_typed = field.type is None and (value.lower() in FLAGS or NUMBER.fullmatch(value) is not None)
    return value if is_bare and not looks_typed and not value.endswith(".") else quoted(value)
