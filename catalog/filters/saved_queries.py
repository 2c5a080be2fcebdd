"""Put saved queries in place of their names in a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from catalog.database.engine import one_of
from catalog.database.schema import collection, snapshot
from catalog.filters.parse import parse_where
from catalog.filters.where import AllOf, AnyOf, Compare, Not, Where, all_of, any_of, comparisons, negation
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Mapping


_MAX_QUERIES = 20


def explain_unknown(ref: str) -> str:
    """Return the error message for a name that is neither a collection nor a snapshot."""
    return f"expected a collection's name or a snapshot's hash, found {ref!r} (`wshard collection ls` lists them)"


def resolve_saved_queries(connection: Connection, where: Where) -> Where:
    """Return the filter with every saved query that it names put in place of its name.

    FilterError for a collection that is not there, and for queries that name one another in a circle.
    """
    for _ in range(_MAX_QUERIES):
        if _asks_for_any(where):
            where = _substitute(where, {}, anywhere=_member_of_any(connection))
        names = _named_in(where)
        if not names:
            return where
        rows = select(collection.c.name, collection.c.query).where(one_of(connection, collection.c.name, names))
        queries: dict[str, str | None] = dict(connection.execute(rows).all())
        hashes = select(snapshot.c.hash).where(one_of(connection, snapshot.c.hash, names))
        missing = names - queries.keys() - set(connection.execute(hashes).scalars())
        if missing:
            raise FilterError(explain_unknown(min(missing)))
        live = {name: parse_where(query) for name, query in queries.items() if query is not None}
        if not live:
            return where
        where = _substitute(where, live)
    raise FilterError(f"expected at most {_MAX_QUERIES} saved queries inside one another, found more: is it a circle?")


def queries_naming(connection: Connection, name: str) -> list[str]:
    """Return the names of the saved queries that name a collection, sorted."""
    rows = connection.execute(select(collection.c.name, collection.c.query).where(collection.c.query.is_not(None)))
    return sorted(own for own, query in rows if name in _named_in(parse_where(query)))


def _asks_for_any(where: Where) -> bool:
    return any(clause.field == "collection" and clause.op == "exists" for clause in comparisons(where))


def _named_in(where: Where) -> set[str]:
    return {str(value) for clause in comparisons(where) if clause.field == "collection" for value in clause.values}


def _member_of_any(connection: Connection) -> Where:
    """Return the filter for the episodes of all named collections.

    Saved queries that refer to this filter, directly or through others, and those that refer to a dropped collection,
    are ignored: they cannot be evaluated.
    """
    named: dict[str, str | None] = dict(connection.execute(select(collection.c.name, collection.c.query)).all())
    queries = {name: parse_where(query) for name, query in named.items() if query is not None}
    needed = {name: _named_in(query) for name, query in queries.items()}
    hashes = select(snapshot.c.hash).where(one_of(connection, snapshot.c.hash, set().union(*needed.values())))
    there = {name for name, query in named.items() if query is None or not _asks_for_any(queries[name])}
    there |= set(connection.execute(hashes).scalars())
    while broken := {name for name, names in needed.items() if name in there and names - there}:
        there -= broken
    names = sorted(there & named.keys())
    return Compare("collection", "in", names) if names else any_of()


def _substitute(where: Where, live: Mapping[str, Where], *, anywhere: Where | None = None) -> Where:
    """Return the filter with those saved queries put in, and `anywhere`, if given, for membership of any collection."""
    match where:
        case AllOf(parts):
            return all_of(*(_substitute(part, live, anywhere=anywhere) for part in parts))
        case AnyOf(parts):
            return any_of(*(_substitute(part, live, anywhere=anywhere) for part in parts))
        case Not(part):
            return negation(_substitute(part, live, anywhere=anywhere))
        case Compare() if where.field == "collection" and where.op == "exists":
            return where if anywhere is None else anywhere
        case Compare() if where.field == "collection":
            rest = [value for value in where.values if value not in live]
            rest_filter = [Compare("collection", "in", rest)] if rest else []
            return any_of(*rest_filter, *(live[str(value)] for value in where.values if value in live))
    return where
