"""Filters as SQL: conditions on the table episode.

Values are always parameters, never text of a statement.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    true,
    union_all,
)

from catalog.database.engine import one_of
from catalog.database.schema import collection, document, episode, lane, pick, snapshot
from catalog.database.sql_functions import contains, json_element, json_exists
from catalog.database.text_search import search_words
from catalog.filters.evaluate import OPERATORS, meets
from catalog.filters.sql_fields import rows_of, statistic, value_of, values_by_key
from catalog.filters.times import bounds_of
from catalog.filters.where import AllOf, AnyOf, Compare, Not, Where
from catalog.full_text import phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import FromClause


def condition(connection: Connection, where: Where) -> ColumnElement[bool]:
    """Return the filter as a condition on the table episode; NULL counts as false."""
    match where:
        case AllOf(parts):
            text_parts = [part for part in parts if isinstance(part, Compare) and part.field == "text"]
            others = [condition(connection, part) for part in parts if part not in text_parts]
            return and_(true(), *([_match_words(connection, text_parts)] if text_parts else []), *others)
        case AnyOf(parts):
            text_parts = [part for part in parts if isinstance(part, Compare) and part.field == "text"]
            others = [condition(connection, part) for part in parts if part not in text_parts]
            return or_(false(), *([_match_words(connection, text_parts, how="OR")] if text_parts else []), *others)
        case Not(part):
            return not_(func.coalesce(condition(connection, part), false()))
        case Compare():
            return _comparison(connection, where)
    raise TypeError(f"expected a filter, found {where!r}")


def _comparison(connection: Connection, clause: Compare) -> ColumnElement[bool]:
    field = clause.about
    if field.root == "text":
        return _match_words(connection, [clause])
    if (by_key := values_by_key(connection, field)) is not None:
        key, values = by_key
        return one_of(connection, key, [number for number, value in values.items() if meets(clause, value)])
    if field.root in ("lane", "collection"):
        return (_lane_comparison if field.root == "lane" else _in_collections)(connection, clause)
    if (rows_and_column := rows_of(connection, field)) is not None:
        rows, column = rows_and_column
        return episode.c.id.in_(rows.where(_test(connection, clause, column)))
    if field.root == "meta" and clause.op == "exists":
        return json_exists(json_element(episode.c.metadata, field.parts))
    return _test(connection, clause, value_of(connection, field, kind=clause.kind))


def _lane_comparison(connection: Connection, clause: Compare) -> ColumnElement[bool]:
    matches = _test(connection, clause, statistic(clause.about))
    conditions = (lane.c.episode_row == episode.c.id, lane.c.name == clause.about.parts[0], matches)
    return select(literal_column("1")).where(*conditions).correlate(episode).exists()


def _match_words(
    connection: Connection, clauses: Sequence[Compare], how: Literal["AND", "OR"] = "AND"
) -> ColumnElement[bool]:
    source, key, matching = find_words(connection, clauses, how)
    return episode.c.id.in_(select(key).select_from(source).where(matching))


def find_words(
    connection: Connection, clauses: Sequence[Compare], how: Literal["AND", "OR"] = "AND"
) -> tuple[FromClause, ColumnElement[int], ColumnElement[bool]]:
    """Return the full-text table, its column of episode ids, and the condition for all (or any) of these phrases.

    All phrases are in one condition, so that the index can start with the rarest word.
    """
    phrases = [phrase(clause.value) for clause in clauses]
    return search_words(connection.dialect.name, document.c.words, document.c.episode_row, phrases, how=how)


def _test(connection: Connection, clause: Compare, column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the comparison of an expression with the clause's value."""
    if clause.op == "exists":
        return column.is_not(None)
    if clause.about.timed and clause.op not in _TEXT_TESTS:
        return or_(false(), *(_within(column, *bounds) for bounds in bounds_of(clause.op, clause.values)))
    if clause.op == "in":
        # A list is bound with one type, and integers beyond 2**53 are not exact as floats.
        floats = [value for value in clause.values if isinstance(value, float)]
        other_values = [value for value in clause.values if not isinstance(value, float)]
        return or_(false(), *(one_of(connection, column, part) for part in (floats, other_values) if part))
    if clause.op in _TEXT_TESTS:
        return _TEXT_TESTS[clause.op](column, str(clause.value))
    values = [literal(value, column.type) for value in clause.values]
    if clause.op == "between":
        return and_(column >= values[0], column <= values[1])
    return cast("ColumnElement[bool]", OPERATORS[clause.op](column, values[0]))


def _within(column: ColumnElement[Any], start: str | None, stop: str | None) -> ColumnElement[bool]:
    """Return the condition that there is a value, from start on and before stop."""
    bounds = [column >= literal(start)] if start is not None else []
    return and_(column.is_not(None), *bounds, *([column < literal(stop)] if stop is not None else []))


def _starts_with(column: ColumnElement[Any], start: str) -> ColumnElement[bool]:
    """Return the condition as a range, which an index can answer: text is ordered by code point."""
    bounds = [column >= literal(start)]
    stem = start.rstrip("\U0010ffff")
    if stem:
        after = ord(stem[-1]) + 1
        after = 0xE000 if after == 0xD800 else after  # surrogates are no text
        bounds.append(column < literal(stem[:-1] + chr(after)))
    return and_(*bounds)


_TEXT_TESTS: Final[Mapping[str, Callable[[ColumnElement[Any], str], ColumnElement[bool]]]] = MappingProxyType(
    {"contains": contains, "startswith": _starts_with}
)


def _in_collections(connection: Connection, clause: Compare) -> ColumnElement[bool]:
    return episode.c.id.in_(_episodes_in_collections(connection, clause))


def _episodes_in_collections(connection: Connection, clause: Compare) -> Select[Any]:
    """Return the episodes in the snapshots with one of these names or hashes, or with any name."""
    rows = select(pick.c.episode_row)
    if clause.op == "exists":
        snapshot_ids = select(collection.c.snapshot_id).where(collection.c.snapshot_id.is_not(None))
        return rows.where(pick.c.snapshot_id.in_(snapshot_ids))
    snapshot_ids = select(collection.c.snapshot_id).where(one_of(connection, collection.c.name, clause.values))
    snapshots_by_hash = select(snapshot.c.id).where(one_of(connection, snapshot.c.hash, clause.values))
    return rows.where(pick.c.snapshot_id.in_(union_all(snapshot_ids, snapshots_by_hash)))
