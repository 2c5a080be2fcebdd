"""Filters as a URL query: `env=reach-v3&reward=0.8..&length=100..&tag=good&-tag=bad&q=pick+up`.

`parse_query(where_query(w)) == w`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode

from catalog.filters.parse import parse_comparison, parse_where
from catalog.filters.to_text import comparison_text, where_text
from catalog.filters.where import Compare, Not, Where, all_of, negation, parts_of
from wshard.core.arguments import plain_text
from wshard.errors import FilterError, FilterSyntaxError

_TEXT_PARAMETER: Final = "q"
_FILTER_PARAMETER: Final = "where"


def where_query(where: Where) -> str:
    """Return the filter as the query of a URL; "" for everything."""
    return urlencode([_parameter(part) for part in parts_of(where)])


def parse_query(query: str) -> Where:
    """Parse the query string of a URL; FilterSyntaxError names the parameter and the position in its value."""
    plain_text(query, "the query of a URL", FilterError)
    try:
        pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError as error:
        raise FilterSyntaxError(f"expected parameters name=value joined by &, found {query!r}: {error}", 0) from error
    return all_of(*(_read(name, value) for name, value in pairs))


def _parameter(part: Where) -> tuple[str, str]:
    sign, inner = ("-", part.part) if isinstance(part, Not) else ("", part)
    if not isinstance(inner, Compare):
        return _FILTER_PARAMETER, where_text(part)
    if inner.field == "text":
        return sign + _TEXT_PARAMETER, str(inner.value)
    return sign + inner.about.short, comparison_text(inner)


def _read(name: str, value: str) -> Where:
    field_name = name.removeprefix("-")
    try:
        if field_name == _FILTER_PARAMETER:
            parsed = parse_where(value)
        elif field_name == _TEXT_PARAMETER:
            parsed = Compare("text", "contains", value)
        else:
            parsed = parse_comparison(field_name, value)
        return negation(parsed) if field_name != name else parsed
    except FilterError as error:
        raise FilterSyntaxError(f"parameter {name!r}: {error}", error.position or 0, field=error.field) from error
