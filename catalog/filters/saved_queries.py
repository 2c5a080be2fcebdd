"""Substitute the saved queries that a filter names."""

from __future__ import annotations

from difflib import get_close_matches
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


def explain_unknown(connection: Connection, ref: str) -> str:
    """Return the error message for a name that is neither a collection nor a snapshot."""
    close = get_close_matches(ref, connection.execute(select(collection.c.name)).scalars(), n=1)
    advice = f"did you mean {close[0]!r}? " if close else ""
    return (
        f"expected a collection's name or a snapshot's hash, found {ref!r} ({advice}`wshard collection ls` lists them)"
    )


def resolve_saved_queries(connection: Connection, where: Where) -> Where:
    """Return the filter with every saved query that it names substituted.

    FilterError for an unknown collection, and for queries that refer to each other in a cycle.
    """
    for _ in range(_MAX_QUERIES):
        if _tests_any_membership(where):
            where = _substitute(where, {}, any_collection=_member_of_any(connection))
        names = _collections_in(where)
        if not names:
            return where
        rows = select(collection.c.name, collection.c.query).where(one_of(connection, collection.c.name, names))
        queries: dict[str, str | None] = dict(connection.execute(rows).all())
        hashes = select(snapshot.c.hash).where(one_of(connection, snapshot.c.hash, names))
        missing = names - queries.keys() - set(connection.execute(hashes).scalars())
        if missing:
            raise FilterError(explain_unknown(connection, min(missing)))
        queries_by_name = {name: parse_where(query) for name, query in queries.items() if query is not None}
        if not queries_by_name:
            return where
        where = _substitute(where, queries_by_name)
    raise FilterError(f"expected at most {_MAX_QUERIES} saved queries inside one another, found more: is it a circle?")


def queries_naming(connection: Connection, name: str) -> list[str]:
    """Return the names of the saved queries that name a collection, sorted."""
    rows = connection.execute(select(collection.c.name, collection.c.query).where(collection.c.query.is_not(None)))
    return sorted(query_name for query_name, query in rows if name in _collections_in(parse_where(query)))


def _tests_any_membership(where: Where) -> bool:
    return any(clause.field == "collection" and clause.op == "exists" for clause in comparisons(where))


def _collections_in(where: Where) -> set[str]:
    return {str(value) for clause in comparisons(where) if clause.field == "collection" for value in clause.values}


def _member_of_any(connection: Connection) -> Where:
    """Return the filter for the episodes of all named collections.

    Saved queries that refer to this filter, directly or through others, and those that refer to a dropped collection,
    are ignored: they cannot be evaluated.
    """
    query_texts: dict[str, str | None] = dict(connection.execute(select(collection.c.name, collection.c.query)).all())
    queries = {name: parse_where(query) for name, query in query_texts.items() if query is not None}
    references = {name: _collections_in(query) for name, query in queries.items()}
    hashes = select(snapshot.c.hash).where(one_of(connection, snapshot.c.hash, set().union(*references.values())))
    usable = {name for name, query in query_texts.items() if query is None or not _tests_any_membership(queries[name])}
    usable |= set(connection.execute(hashes).scalars())
    while broken := {name for name, names in references.items() if name in usable and names - usable}:
        usable -= broken
    names = sorted(usable & query_texts.keys())
    return Compare("collection", "in", names) if names else any_of()


def _substitute(where: Where, queries: Mapping[str, Where], *, any_collection: Where | None = None) -> Where:
    """Return the filter with these saved queries substituted, and any_collection, if given, for `collection:*`."""
    match where:
        case AllOf(parts):
            return all_of(*(_substitute(part, queries, any_collection=any_collection) for part in parts))
        case AnyOf(parts):
            return any_of(*(_substitute(part, queries, any_collection=any_collection) for part in parts))
        case Not(part):
            return negation(_substitute(part, queries, any_collection=any_collection))
        case Compare() if where.field == "collection" and where.op == "exists":
            return where if any_collection is None else any_collection
        case Compare() if where.field == "collection":
            snapshots = [value for value in where.values if value not in queries]
            snapshot_filter = [Compare("collection", "in", snapshots)] if snapshots else []
            return any_of(*snapshot_filter, *(queries[str(value)] for value in where.values if value in queries))
    return where
