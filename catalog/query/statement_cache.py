"""Cache of statements: building one takes as long as running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from catalog.filters.sql_fields import depends_on_data
from catalog.filters.where import comparisons

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from catalog.filters.where import Where

Statement = TypeVar("Statement")

_MAX_STATEMENTS: Final = 256
"""Maximum number of cached statements; then the cache is cleared, which needs no lock."""
_MAX_VALUES: Final = 100
"""Filters with more values are not cached: they take memory, and running them takes longer than building them."""

_statements: dict[Hashable, Any] = {}


def remember(where: Where, key: tuple[Hashable, ...], make: Callable[[], Statement]) -> Statement:
    """Return the statement for a filter and the other arguments, from the cache if possible.

    Filters whose condition depends on the contents of the database are compiled each time.
    """
    statement: Statement | None = _statements.get((where, *key))
    if statement is None:
        statement = make()
        clauses = list(comparisons(where))
        is_small = sum(len(clause.values) for clause in clauses) <= _MAX_VALUES
        if is_small and not any(depends_on_data(clause.about) for clause in clauses):
            if len(_statements) >= _MAX_STATEMENTS:
                _statements.clear()
            _statements[where, *key] = statement
    return statement
