"""Reading episodes: rows, pages, counts, layouts."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, null, select

from catalog.database.engine import in_parameter, list_parameter, one_of
from catalog.database.roots import absolute, base_of, join
from catalog.database.schema import episode, root, tag
from catalog.database.sql_functions import json_list
from catalog.filters.fields import FIELDS, Field, field_of
from catalog.filters.sql_fields import value_of
from catalog.filters.to_sql import condition, find_words
from catalog.filters.where import EVERYTHING, Compare, Where, parts_of
from catalog.query.paging import (
    LAST_ID,
    WANTED,
    Cursor,
    column_statements,
    computed_statements,
    cursor_state,
    has_values,
    parameters,
    sort_column,
    sortable,
)
from catalog.query.statement_cache import remember
from catalog.query.walk import hidden, is_walkable, limit_to_near_rows
from catalog.records import EpisodeRow, Page
from catalog.values import storable
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ORDERS = tuple(name for name in FIELDS if name in episode.c and name != "path")
"""Fields that `select` orders by a column; so it does for `score.NAME`. Other single-valued fields are computed."""

_ROOT, _PATH, _METADATA = map(episode.c.keys().index, ("root_id", "path", "metadata"))

_decode_json = json.JSONDecoder().raw_decode  # a third of the time of json.loads


def load_rows(connection: Connection, *conditions: ColumnElement[bool]) -> list[EpisodeRow]:
    """Return the episodes that match the conditions, by id."""
    statement = _rows(connection.dialect.name).where(*conditions)
    base = base_of(connection)
    return [_row(row, base) for row in connection.execute(statement).all()]


def load_ids(connection: Connection, ids: Collection[int]) -> list[EpisodeRow]:
    """Return the episodes with these ids, by id; unknown ids are ignored."""
    storable_ids = [id_ for id_ in ids if storable(id_)]
    if not storable_ids:
        return []
    rows = connection.execute(_rows_of(connection.dialect.name), list_parameter(connection, storable_ids)).all()
    base = base_of(connection)
    return [_row(row, base) for row in rows]


def load_uids(connection: Connection, uids: Collection[str]) -> dict[str, EpisodeRow]:
    """Return the episodes with these uids, by uid; unknown uids are ignored."""
    return {row.uid: row for row in load_rows(connection, one_of(connection, episode.c.uid, uids))}


@lru_cache(maxsize=2)
def _rows(product: str) -> Select[Any]:
    """Return the statement for rows with their tags, by id."""
    tags = select(json_list(product, tag.c.name)).where(tag.c.episode_row == episode.c.id).scalar_subquery()
    stored = (column for column in episode.c if column is not episode.c.sort_key)
    columns = (*stored, root.c.place, root.c.inside, tags)
    # An inner join would let SQLite begin with the roots and sort every episode; each episode has a root either way.
    return select(*columns).select_from(episode.outerjoin(root)).order_by(episode.c.id)


@lru_cache(maxsize=2)
def _rows_of(product: str) -> Select[Any]:
    """Return the cached statement for the rows of some episodes, needed by every page."""
    return _rows(product).where(in_parameter(product, episode.c.id))


def _row(columns: Any, base: str | None) -> EpisodeRow:
    *values, root_place, inside, tags = columns
    values[_ROOT] = absolute(base, root_place, inside=inside)
    values[_PATH] = join(values[_ROOT], values[_PATH])
    values[_METADATA], _ = _decode_json(values[_METADATA])
    values.append(tuple(sorted(json.loads(tags))) if tags != "[]" else ())
    return EpisodeRow(*values)


class PageRequest(NamedTuple):
    """The rows of a page: in this order, up to `limit` after the cursor `after`, without the first `skip` of them."""

    order: str
    after: str | None
    limit: int
    skip: int = 0


def load_page(connection: Connection, where: Where, request: PageRequest) -> Page:
    """Return the requested page; ties are ordered by id, missing values come last in both directions."""
    order, _, limit, skip = request
    cursor = Cursor.decode(request.after, order=order) if request.after is not None else None
    matches, was_walked = [], False
    if not skip and connection.dialect.name == "sqlite" and is_walkable(where, ordering(order)):
        matches, was_walked = _find_near(connection, where, request, cursor), True
    statements = [] if matches else _limited_statements(connection, where, request, cursor, few=was_walked)
    for statement in statements:
        parameter_values = parameters(cursor, wanted=limit + 1 - len(matches))
        page_statement = statement.offset(skip) if skip else statement
        rows = [(number, value) for number, value in connection.execute(page_statement, parameter_values).all()]
        if skip and not rows:
            skip -= _count_of(connection, statement, parameter_values, limit=skip)
        elif rows:
            skip = 0
        matches += rows
        if len(matches) > limit:
            break
    page_rows = matches[:limit]
    by_id = {row.id: row for row in load_ids(connection, [number for number, _ in page_rows])}
    next_cursor = Cursor(order, page_rows[-1][1], page_rows[-1][0]).encode() if len(matches) > limit else None
    return Page(tuple(by_id[number] for number, _ in page_rows), next_cursor)


def load_listed(connection: Connection, request: PageRequest, ids: Sequence[int]) -> Page:
    """Return the page with these ids, which are followed by that of the next row if there is one."""
    by_id = {row.id: row for row in load_ids(connection, ids)}
    rows = tuple(by_id[number] for number in ids[: request.limit] if number in by_id)
    if len(ids) <= request.limit or not rows:
        return Page(rows, None)
    last = rows[-1].id
    statements = page_statements(connection, EVERYTHING, order=request.order)
    values = (connection.execute(statement.where(episode.c.id == last)).all() for statement in statements)
    ((_, value),) = next(filter(None, values))
    return Page(rows, Cursor(request.order, value, last).encode())


def _find_near(
    connection: Connection, where: Where, request: PageRequest, cursor: Cursor | None
) -> list[tuple[int, Any]]:
    """Return the rows of a page and the next one, if they are near its start in the index; else none."""
    field, descending = ordering(request.order), request.order.startswith("-")
    if not has_values(cursor):
        return []

    def make() -> Select[Any]:
        statement = next(column_statements(field, cursor, descending=descending))
        matching = condition(connection, where)
        return limit_to_near_rows(statement, field, matching, descending=descending).limit(WANTED)

    statement = remember(where, ("walk", request.order, cursor_state(cursor)), make)
    parameter_values = parameters(cursor, wanted=request.limit + 1)
    rows = [(number, value) for number, value in connection.execute(statement, parameter_values).all()]
    return rows if len(rows) > request.limit else []


def _count_of(connection: Connection, statement: Select[Any], parameter_values: dict[str, Any], *, limit: int) -> int:
    """Return how many rows a statement has, `most` at most."""
    count_statement = select(func.count()).select_from(statement.subquery())
    return int(connection.execute(count_statement, {**parameter_values, "wanted": limit}).scalar_one())


def _limited_statements(
    connection: Connection, where: Where, request: PageRequest, cursor: Cursor | None, *, few: bool
) -> list[Select[Any]]:
    """Return the statements of a page, each for as many rows as its parameters request.

    few: presumably few episodes match, so they are found first and then sorted.
    """
    order, field = request.order, ordering(request.order)

    def make() -> list[Select[Any]]:
        statements = page_statements(connection, where, order=order, cursor=cursor)
        if few and has_values(cursor):
            sorted_ = next(
                column_statements(field, cursor, descending=order.startswith("-"), value=hidden(sort_column(field)))
            )
            statements[0] = sorted_.where(condition(connection, where))
        return [statement.limit(WANTED) for statement in statements]

    if is_computed(field):  # such statements have the cursor's value in them, and caching would not save time
        return make()
    return remember(where, ("page", connection.dialect.name, order, cursor_state(cursor), few), make)


def _text_comparisons(where: Where) -> list[Compare]:
    """Return the comparisons of a filter that consists of full text only; [] for any other filter."""
    parts = parts_of(where)
    text_parts = [part for part in parts if isinstance(part, Compare) and _is_full_text(part)]
    return text_parts if len(text_parts) == len(parts) else []


def _is_full_text(part: Where) -> bool:
    """Return True if a part of a filter is full text."""
    return isinstance(part, Compare) and part.field == "text"


def page_statements(
    connection: Connection, where: Where, *, order: str, cursor: Cursor | None = None
) -> list[Select[Any]]:
    """Return the statements whose rows, in sequence, are the episodes after the cursor in that order.

    A row is an id and its sort key: sorting whole rows would take twice as long. The cursor is a parameter, except in
    computed orders.
    """
    field = ordering(order)
    descending = order.startswith("-")
    text_parts = _text_comparisons(where)
    if text_parts and field.root == "id":
        statements = [_select_by_text(connection, text_parts, cursor, descending=descending)]
    else:
        matching = condition(connection, where)
        # Matches from the full-text index are looked up in the scores; walking all scores instead would be slower.
        sorts_text_matches = field.root == "score" and any(_is_full_text(part) for part in parts_of(where))
        value = value_of(connection, field) if sorts_text_matches else None
        if is_computed(field):
            phases = computed_statements(connection, field, cursor, descending=descending)
        else:
            phases = column_statements(field, cursor, descending=descending, value=value)
        statements = [statement.where(matching) for statement in phases]
    if not text_parts or connection.dialect.name == "sqlite":
        return statements
    return [_find_before_sorting(statement, descending=descending) for statement in statements]


def _find_before_sorting(statement: Select[Any], *, descending: bool) -> Select[Any]:
    """Return the statement rewritten so that all rows are found before any is sorted.

    For full text: PostgreSQL assumes that words which are common by themselves are also common next to each other, and
    would walk the order to find them.
    """
    number, value = statement.order_by(None).offset(0).subquery().c
    ordered = (part.desc() if descending else part.asc() for part in (value, number))
    return select(number, value.label("sorted_by")).order_by(*ordered)


def _select_by_text(
    connection: Connection, clauses: Sequence[Compare], cursor: Cursor | None, *, descending: bool
) -> Select[Any]:
    """Return the statement for the episodes with these words by id: SQLite's index yields them in this order."""
    source, key, matching = find_words(connection, clauses)
    columns: list[ColumnElement[Any]] = [key, null().label("sorted_by")]
    statement = select(*columns).select_from(source).where(matching)
    if cursor is not None:
        statement = statement.where(key < LAST_ID if descending else key > LAST_ID)
    return statement.order_by(key.desc() if descending else key.asc())


def ordering(order: str) -> Field:
    """Return the field of an order; FilterError for one that has several values."""
    field = field_of(order.removeprefix("-"))
    if not sortable(field):
        raise FilterError(f"expected a field of one value to order by (with - reversed), found {order!r}")
    return field


def is_computed(field: Field) -> bool:
    """Return True if no column stores the field, so that sorting computes it for every matching episode."""
    return field.root not in ORDERS and field.root != "score"


def count_rows(connection: Connection, where: Where) -> int:
    """Return how many episodes match."""
    if text_parts := _text_comparisons(where):
        source, _, matching = find_words(connection, text_parts)
        statement = select(func.count()).select_from(source).where(matching)
    else:
        statement = select(func.count()).select_from(episode).where(condition(connection, where))
    return int(connection.execute(statement).scalar_one())


def load_matching_ids(connection: Connection, where: Where) -> list[int]:
    """Return the ids of all matching episodes, ascending."""
    return sorted(connection.execute(select(episode.c.id).where(condition(connection, where))).scalars())
