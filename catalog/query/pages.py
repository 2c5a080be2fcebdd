"""Reading episodes: rows, pages, counts, layouts.

`base` is the catalog's folder, None for a server.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, null, select

from catalog.database.engine import among_listed, listed, one_of
from catalog.database.roots import absolute, join
from catalog.database.schema import episode, layout, root, tag
from catalog.database.sql_functions import json_list
from catalog.filters.fields import FIELDS, Field, field_of
from catalog.filters.sql_fields import value_of
from catalog.filters.to_sql import condition, words_found
from catalog.filters.where import EVERYTHING, Compare, Where, parts_of
from catalog.query.paging import (
    LAST_ID,
    WANTED,
    Cursor,
    computed,
    has_values,
    parameters,
    place_of,
    sortable,
    stored,
)
from catalog.query.statement_cache import remember
from catalog.query.walk import hidden, is_walkable, walk_a_little
from catalog.records import EpisodeRow, LaneDefinition, Layout, Page
from catalog.values import storable
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ORDERS = tuple(name for name in FIELDS if name in episode.c and name != "path")
"""What `select` can order by from columns, `score.NAME` beside it; other fields of one value are computed for each."""

_ROOT, _PATH, _METADATA = map(episode.c.keys().index, ("root_id", "path", "metadata"))

_parse = json.JSONDecoder().raw_decode  # a third of the time of json.loads


def load_rows(connection: Connection, *conditions: ColumnElement[bool], base: str | None) -> list[EpisodeRow]:
    """Return the episodes that match the conditions, by id."""
    statement = _rows(connection.dialect.name).where(*conditions)
    return [_row(found, base=base) for found in connection.execute(statement).all()]


def load_ids(connection: Connection, ids: Collection[int], *, base: str | None) -> list[EpisodeRow]:
    """Return the episodes of these ids, by id; unknown ids have none."""
    known = [id_ for id_ in ids if storable(id_)]
    if not known:
        return []
    found = connection.execute(_rows_of(connection.dialect.name), listed(connection, known)).all()
    return [_row(row, base=base) for row in found]


def load_uids(connection: Connection, uids: Collection[str], *, base: str | None) -> dict[str, EpisodeRow]:
    """Return the episodes with these uids, by uid; unknown uids are ignored."""
    return {row.uid: row for row in load_rows(connection, one_of(connection, episode.c.uid, uids), base=base)}


@lru_cache(maxsize=2)
def _rows(product: str) -> Select[Any]:
    """Return the statement for rows with their tags, by id."""
    tags = select(json_list(product, tag.c.name)).where(tag.c.episode_row == episode.c.id).scalar_subquery()
    columns = (*episode.c, root.c.place, root.c.inside, tags)
    # An inner join would let SQLite begin with the roots and sort every episode; each episode has a root either way.
    return select(*columns).select_from(episode.outerjoin(root)).order_by(episode.c.id)


@lru_cache(maxsize=2)
def _rows_of(product: str) -> Select[Any]:
    """Return the cached statement for the rows of some episodes, needed by every page."""
    return _rows(product).where(among_listed(product, episode.c.id))


def _row(found: Any, *, base: str | None) -> EpisodeRow:
    *values, place, inside, tags = found
    values[_ROOT] = absolute(base, place, inside=inside, path="")
    values[_PATH] = join(values[_ROOT], values[_PATH])
    values[_METADATA], _ = _parse(values[_METADATA])
    values.append(tuple(sorted(json.loads(tags))) if tags != "[]" else ())
    return EpisodeRow(*values)


class PageRequest(NamedTuple):
    """Which rows of an order make a page: up to limit ones after the cursor, without the first `skip` of them."""

    order: str
    after: str | None
    limit: int
    skip: int = 0


def load_page(connection: Connection, where: Where, part: PageRequest, *, base: str | None) -> Page:
    """Return the rows of the part; ties by id, missing values last in both directions."""
    order, _, limit, skip = part
    cursor = Cursor.decode(part.after, order=order) if part.after is not None else None
    found, walked = [], False
    if not skip and connection.dialect.name == "sqlite" and is_walkable(where, ordering(order)):
        found, walked = _find_near(connection, where, part, cursor, base=base), True
    statements = [] if found else _limited(connection, where, part, cursor, base=base, few=walked)
    for statement in statements:
        bound = parameters(cursor, wanted=limit + 1 - len(found))
        here = statement.offset(skip) if skip else statement
        rows = [(number, value) for number, value in connection.execute(here, bound).all()]
        if skip and not rows:
            skip -= _count_of(connection, statement, bound, most=skip)
        elif rows:
            skip = 0
        found += rows
        if len(found) > limit:
            break
    taken = found[:limit]
    by_id = {row.id: row for row in load_ids(connection, [number for number, _ in taken], base=base)}
    last = Cursor(order, taken[-1][1], taken[-1][0]).encode() if len(found) > limit else None
    return Page(tuple(by_id[number] for number, _ in taken), last)


def load_listed(connection: Connection, part: PageRequest, ids: Sequence[int], *, base: str | None) -> Page:
    """Return the page of which these are the ids, and that of the row after it."""
    by_id = {row.id: row for row in load_ids(connection, ids, base=base)}
    rows = tuple(by_id[number] for number in ids[: part.limit] if number in by_id)
    if len(ids) <= part.limit or not rows:
        return Page(rows, None)
    last = rows[-1].id
    statements = page_statements(connection, EVERYTHING, order=part.order, base=base)
    values = (connection.execute(one.where(episode.c.id == last)).all() for one in statements)
    ((_, value),) = next(filter(None, values))
    return Page(rows, Cursor(part.order, value, last).encode())


def _find_near(
    connection: Connection, where: Where, part: PageRequest, cursor: Cursor | None, *, base: str | None
) -> list[tuple[int, Any]]:
    """Return the rows of a page, and one more, if they are near its start in the order; else none."""
    field, descending = ordering(part.order), part.order.startswith("-")
    if not has_values(cursor):
        return []

    def make() -> Select[Any]:
        statement = next(stored(field, cursor, descending=descending))
        wanted = condition(connection, where, base=base)
        return walk_a_little(statement, field, wanted, descending=descending).limit(WANTED)

    statement = remember(where, ("walk", part.order, place_of(cursor)), make)
    bound = parameters(cursor, wanted=part.limit + 1)
    rows = [(number, value) for number, value in connection.execute(statement, bound).all()]
    return rows if len(rows) > part.limit else []


def _count_of(connection: Connection, statement: Select[Any], bound: dict[str, Any], *, most: int) -> int:
    """Return how many rows a statement has, `most` at most."""
    counted = select(func.count()).select_from(statement.subquery())
    return int(connection.execute(counted, {**bound, "wanted": most}).scalar_one())


def _limited(
    connection: Connection, where: Where, part: PageRequest, cursor: Cursor | None, *, base: str | None, few: bool
) -> list[Select[Any]]:
    """Return the statements of a page, each for as many rows as its parameters request.

    few: presumably few match, so that matches are found first and then sorted.
    """
    order, field = part.order, ordering(part.order)

    def make() -> list[Select[Any]]:
        statements = page_statements(connection, where, order=order, cursor=cursor, base=base)
        if few and has_values(cursor):
            sorted_ = next(stored(field, cursor, descending=order.startswith("-"), value=hidden(episode.c[field.root])))
            statements[0] = sorted_.where(condition(connection, where, base=base))
        return [statement.limit(WANTED) for statement in statements]

    if is_computed(field):  # what sorts all that matches depends on more, and saves nothing
        return make()
    return remember(where, ("page", connection.dialect.name, order, place_of(cursor), few), make)


def _spoken(where: Where) -> list[Compare]:
    """Return the words of a filter that consists of full text only."""
    parts = parts_of(where)
    spoken = [part for part in parts if isinstance(part, Compare) and _asks_words(part)]
    return spoken if len(spoken) == len(parts) else []


def _asks_words(part: Where) -> bool:
    """Return True if a part of a filter is full text."""
    return isinstance(part, Compare) and part.field == "text"


def page_statements(
    connection: Connection, where: Where, *, order: str, cursor: Cursor | None = None, base: str | None
) -> list[Select[Any]]:
    """Return the statements whose rows, in sequence, are the episodes after the cursor in that order.

    A row is an id and its sort key: sorting whole rows would take twice as long. The cursor is a parameter, except in
    computed orders.
    """
    field = ordering(order)
    descending = order.startswith("-")
    spoken = _spoken(where)
    if spoken and field.root == "id":
        statements = [_select_by_words(connection, spoken, cursor, descending=descending)]
    else:
        wanted = condition(connection, where, base=base)
        # What the index of words gives is looked up in the scores: to walk these would be to look all of them up in it.
        looked_up = field.root == "score" and any(_asks_words(part) for part in parts_of(where))
        value = value_of(connection, field, base=base) if looked_up else None
        if is_computed(field):
            phases = computed(connection, field, cursor, descending=descending, base=base)
        else:
            phases = stored(field, cursor, descending=descending, value=value)
        statements = [statement.where(wanted) for statement in phases]
    if not spoken or connection.dialect.name == "sqlite":
        return statements
    return [_found_first(statement, descending=descending) for statement in statements]


def _found_first(statement: Select[Any], *, descending: bool) -> Select[Any]:
    """Return it with all of its rows found before any is sorted.

    Asked when words are known to be rare. PostgreSQL believes that words which are common by themselves are common side
    by side too, and would walk the order for them.
    """
    number, value = statement.order_by(None).offset(0).subquery().c
    ordered = (part.desc() if descending else part.asc() for part in (value, number))
    return select(number, value.label("sorted_by")).order_by(*ordered)


def _select_by_words(
    connection: Connection, clauses: Sequence[Compare], cursor: Cursor | None, *, descending: bool
) -> Select[Any]:
    """Return the statement for the episodes with these words by id: SQLite reads them in order, never all of them."""
    source, key, found = words_found(connection, clauses)
    columns: list[ColumnElement[Any]] = [key, null().label("sorted_by")]
    statement = select(*columns).select_from(source).where(found)
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
    """Say whether no column has the field, so that it is read of every episode to sort by it."""
    return field.root not in ORDERS and field.root != "score"


def count_rows(connection: Connection, where: Where, *, base: str | None) -> int:
    """Return how many episodes match."""
    if spoken := _spoken(where):
        source, _, found = words_found(connection, spoken)
        statement = select(func.count()).select_from(source).where(found)
    else:
        statement = select(func.count()).select_from(episode).where(condition(connection, where, base=base))
    return int(connection.execute(statement).scalar_one())


def load_matching_ids(connection: Connection, where: Where, *, base: str | None) -> list[int]:
    """Return the ids of all matching episodes, ascending."""
    return sorted(connection.execute(select(episode.c.id).where(condition(connection, where, base=base))).scalars())


def load_layouts(connection: Connection, where: Where, *, base: str | None) -> list[Layout]:
    """Return the layouts that at least one of the matching episodes has, by id."""
    statement = (
        select(layout.c.id, layout.c.definition, func.count(episode.c.id))
        .select_from(layout.join(episode))
        .where(condition(connection, where, base=base))
        .group_by(layout.c.id, layout.c.definition)
        .order_by(layout.c.id)
    )
    return [Layout(number, decode_lanes(text), int(count)) for number, text, count in connection.execute(statement)]


def decode_lanes(text: str) -> tuple[LaneDefinition, ...]:
    """Read a layout's definition."""
    parsed: Sequence[Any] = json.loads(text)
    return tuple(LaneDefinition(name, dtype, tuple(shape)) for name, dtype, shape in parsed)
