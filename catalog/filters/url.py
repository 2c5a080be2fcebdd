"""Filters as a URL query: `env=reach-v3&reward=0.8..&length=100..&tag=good&-tag=bad&q=pick+up`.

`parse_query(where_query(w)) == w`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode

from catalog.filters.parse import parse_comparison, parse_where
from catalog.filters.to_text import comparison_text, where_text
from catalog.filters.where import Compare, Not, Where, all_of, negation, parts_of
from wshard.arguments import plain_text
from wshard.errors import FilterError, FilterSyntaxError

_WORDS: Final = "q"
_REST: Final = "where"


def where_query(where: Where) -> str:
    """Return the filter as the query of a URL; "" for everything."""
    return urlencode([_parameter(part) for part in parts_of(where)])


def parse_query(query: str) -> Where:
    """Parse the query string of a URL; FilterSyntaxError names the parameter and the position in its value."""
    plain_text(query, "the query of a URL", FilterError)
    try:
        pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError as error:
        raise FilterSyntaxError(f"expected parameters name=value joined by &, found {query!r}: {error}") from error
    return all_of(*(_read(name, value) for name, value in pairs))


def _parameter(part: Where) -> tuple[str, str]:
    sign, inner = ("-", part.part) if isinstance(part, Not) else ("", part)
    if not isinstance(inner, Compare):
        return _REST, where_text(part)
    if inner.field == "text":
        return sign + _WORDS, str(inner.value)
    return sign + inner.about.short, comparison_text(inner)


def _read(name: str, value: str) -> Where:
    plain = name.removeprefix("-")
    try:
        if plain == _REST:
            found = parse_where(value)
        elif plain == _WORDS:
            found = Compare("text", "contains", value)
        else:
            found = parse_comparison(plain, value)
        return negation(found) if plain != name else found
    except FilterError as error:
        position = error.position if isinstance(error, FilterSyntaxError) else 0
        raise FilterSyntaxError(f"parameter {name!r}: {error}", position) from error
