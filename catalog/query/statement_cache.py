"""Cache of statements: building one takes as long as running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from catalog.filters.sql_fields import is_looked_up
from catalog.filters.where import comparisons

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from catalog.filters.where import Where

Made = TypeVar("Made")

_MOST: Final = 256
"""So many are kept; then all go, which needs no lock."""
_VALUES: Final = 100
"""Filters with more are not kept: they take memory, and to make a statement takes little time beside them."""

_made: dict[Hashable, Any] = {}


def remember(where: Where, key: tuple[Hashable, ...], make: Callable[[], Made]) -> Made:
    """Return the statement for a filter and the other arguments, from the cache if possible.

    Filters whose condition depends on the contents of the database are compiled each time.
    """
    found: Made | None = _made.get((where, *key))
    if found is None:
        found = make()
        clauses = list(comparisons(where))
        few = sum(len(clause.values) for clause in clauses) <= _VALUES
        if few and not any(is_looked_up(clause.about) for clause in clauses):
            if len(_made) >= _MOST:
                _made.clear()
            _made[where, *key] = found
    return found
