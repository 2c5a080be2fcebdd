"""Collections: virtual datasets, of which no data is copied.

Knows: how a saved query is put into filters that name it. Does not know: transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from catalog.engine import one_of
from catalog.filters import AllOf, AnyOf, Compare, Not, Where, all_of, any_of, comparisons, negation
from catalog.form_text import parse_where
from catalog.schema import collection, snapshot
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_QUERIES = 20


def resolved(connection: Connection, where: Where) -> Where:
    """Return the filter with every saved query that it names put in place of its name.

    FilterError for a collection that is not there, and for queries that name one another in a circle.
    """
    for _ in range(_MAX_QUERIES):
        names = {str(value) for clause in comparisons(where) if clause.field == "collection" for value in clause.values}
        if not names:
            return where
        rows = select(collection.c.name, collection.c.query).where(one_of(connection, collection.c.name, names))
        queries: dict[str, str | None] = {name: query for name, query in connection.execute(rows)}  # noqa: C416  (rows are no pairs to mypy)
        hashes = select(snapshot.c.hash).where(one_of(connection, snapshot.c.hash, names))
        missing = names - queries.keys() - set(connection.execute(hashes).scalars())
        if missing:
            raise FilterError(f"expected a collection's name or a snapshot's hash, found {min(missing)!r}")
        live = {name: parse_where(query) for name, query in queries.items() if query is not None}
        if not live:
            return where
        where = _replaced(where, live)
    raise FilterError(f"expected at most {_MAX_QUERIES} saved queries inside one another, found more: is it a circle?")


def _replaced(where: Where, live: Mapping[str, Where]) -> Where:
    match where:
        case AllOf(parts):
            return all_of(*(_replaced(part, live) for part in parts))
        case AnyOf(parts):
            return any_of(*(_replaced(part, live) for part in parts))
        case Not(part):
            return negation(_replaced(part, live))
        case Compare() if where.field == "collection" and where.op != "exists":
            rest = [value for value in where.values if value not in live]
            kept = [Compare("collection", "in", rest)] if rest else []
            return any_of(*kept, *(live[str(value)] for value in where.values if value in live))
    return where
