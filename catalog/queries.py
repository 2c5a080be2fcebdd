"""Reading episodes: rows, pages, counts, layouts.

Knows: how to page by key instead of by offset. Does not know: filters (conditions.py), how rows come to be.
`base` is the catalog's folder, None for a server.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Select, func, literal, null, select, tuple_

from catalog.conditions import condition
from catalog.dialect import words_index
from catalog.engine import among_listed, listed, one_of
from catalog.fields import FIELDS, Field, field_of
from catalog.filters import Compare, Where, parts_of
from catalog.orders import computed, sortable
from catalog.places import absolute, join
from catalog.records import EpisodeRow, LaneDefinition, Layout, Page
from catalog.schema import document, episode, layout, root, score, tag
from catalog.values import INTEGER_LIMIT, Scalar, storable
from catalog.worded import walk_some
from catalog.words import phrase
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

ORDERS = tuple(name for name in FIELDS if name in episode.c and name != "path")
"""What `select` can order by from columns, `score.NAME` beside it; other fields of one value are computed for each."""

# Fields whose order an index gives.
_INDEXED = {"score", *(next(iter(index.columns)).name for index in episode.indexes)}
_ID, _ROOT, _PATH, _METADATA = map(list(episode.c.keys()).index, ("id", "root_id", "path", "metadata"))
_PLACE = (root.c.place, root.c.inside)
_SCORED = select(*episode.c, *_PLACE, score.c.value.label("sorted_by")).select_from(
    score.join(episode, episode.c.id == score.c.episode_row).outerjoin(root, root.c.id == episode.c.root_id)
)


@lru_cache(maxsize=32)
def _rows(sorted_by: str | None = None) -> Select[Any]:
    """Return the statement for rows with that column of episode beside them; made once, for that takes time."""
    # An inner join would let SQLite begin with the roots and sort every episode; each episode has a root either way.
    column = null() if sorted_by is None else episode.c[sorted_by]
    return select(*episode.c, *_PLACE, column.label("sorted_by")).select_from(episode.outerjoin(root))


def load_rows(connection: Connection, *conditions: ColumnElement[bool], base: str | None) -> list[EpisodeRow]:
    """Return the episodes that meet the conditions, by id."""
    statement = _rows().where(*conditions).order_by(episode.c.id)
    return [row for row, _ in _load(connection, statement, base=base)]


def load_ids(connection: Connection, ids: Collection[int], *, base: str | None) -> list[EpisodeRow]:
    """Return the episodes of these ids, by id; unknown ids have none."""
    known = [id_ for id_ in ids if storable(id_)]
    if not known:
        return []
    found = _load(connection, _rows_of(connection.dialect.name), listed(connection, known), base=base)
    return [row for row, _ in found]


@lru_cache(maxsize=2)
def _rows_of(product: str) -> Select[Any]:
    """Return the statement for the rows of some episodes; every search asks it."""
    return _rows().where(among_listed(product, episode.c.id)).order_by(episode.c.id)


def load_uids(connection: Connection, uids: Collection[str], *, base: str | None) -> dict[str, EpisodeRow]:
    """Return the episodes of these uids, by uid; unknown uids are left out."""
    return {row.uid: row for row in load_rows(connection, one_of(connection, episode.c.uid, uids), base=base)}


def _load(
    connection: Connection, statement: Select[Any], values: Mapping[str, Any] | None = None, *, base: str | None
) -> list[tuple[EpisodeRow, Scalar | None]]:
    """Return the rows of a statement made by _rows or _SCORED, each with what it is sorted by."""
    found = connection.execute(statement, values).all()
    tags = _tags(connection, [row[_ID] for row in found])
    return [(_row(row, tags=tags.get(row[_ID], ()), base=base), row[-1]) for row in found]


def _row(row: Any, *, tags: Iterable[str], base: str | None) -> EpisodeRow:
    *values, place, inside, _ = row
    values[_ROOT] = absolute(base, place, inside=inside, path="")
    values[_PATH] = join(values[_ROOT], values[_PATH])
    values[_METADATA] = json.loads(values[_METADATA])
    values.append(tuple(tags))
    return EpisodeRow(*values)


def _tags(connection: Connection, ids: Collection[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for row, name in connection.execute(_tags_of(connection.dialect.name), listed(connection, ids)) if ids else ():
        found.setdefault(row, []).append(name)
    return {row: sorted(names) for row, names in found.items()}


@lru_cache(maxsize=2)
def _tags_of(product: str) -> Select[Any]:
    """Return the statement for the tags of some episodes; every page asks it, and making it takes longer than that."""
    return select(tag.c.episode_row, tag.c.name).where(among_listed(product, tag.c.episode_row))


@dataclass(frozen=True)
class Cursor:
    """The last row of a page: its order, its value there (None among the missing values) and its id."""

    order: str
    value: Scalar | None
    id: int

    def encode(self) -> str:
        """Return opaque text for URLs."""
        text = json.dumps([self.order, self.value, self.id], ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @staticmethod
    def decode(text: str, *, order: str) -> Cursor:
        """Read it back; FilterError when it is none, or one of another order."""
        try:
            padded = text.encode("ascii") + b"=" * (-len(text) % 4)
            found, value, last = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (ValueError, TypeError, RecursionError, binascii.Error) as error:
            raise FilterError(f"expected the cursor of an earlier page, found {text!r}") from error
        whole = isinstance(last, int) and not isinstance(last, bool) and 0 <= last <= INTEGER_LIMIT
        if found != order or not whole:
            raise FilterError(f"expected the cursor of a page ordered by {order}, found one of {found!r}")
        if value is not None:
            value = Compare(order.removeprefix("-"), "eq", value).value
        return Cursor(order, value, last)


def load_page(
    connection: Connection, where: Where, *, order: str, after: str | None, limit: int, base: str | None
) -> Page:
    """Return up to limit rows after the cursor; ties by id, missing values last in both directions."""
    if limit < 1:
        raise FilterError(f"expected a limit of at least 1, found {limit}")
    walk = _walk(connection, where, order=order, after=after, wanted=limit + 1)
    found = [] if walk is None else _load_narrow(connection, walk, base=base)
    if len(found) > limit:
        return _page(found[:limit], order=order)
    found = []
    words = order.removeprefix("-") != "id" and any(_asks_words(part) for part in parts_of(where))
    sorts = words or _is_computed(_ordering(order))
    for statement in page_statements(connection, where, order=order, after=after, base=base):
        rest = statement.limit(limit + 1 - len(found))
        found += _load_narrow(connection, _narrow(rest), base=base) if sorts else _load(connection, rest, base=base)
        if len(found) > limit:
            return _page(found[:limit], order=order)
    return Page(tuple(row for row, _ in found), None)


def _narrow(statement: Select[Any]) -> Select[Any]:
    """Return a statement made by _rows or _SCORED with two columns, id and what it is sorted by.

    All that the index of words finds is sorted for one page: whole rows would take twice as long.
    """
    return statement.with_only_columns(episode.c.id, statement.selected_columns.sorted_by)


def _load_narrow(
    connection: Connection, statement: Select[Any], *, base: str | None
) -> list[tuple[EpisodeRow, Scalar | None]]:
    """Return the rows whose ids a statement made by _narrow gives, in its order."""
    found = connection.execute(statement).all()
    rows = {row.id: row for row in load_ids(connection, [number for number, _ in found], base=base)}
    return [(rows[number], value) for number, value in found]


def _page(found: Sequence[tuple[EpisodeRow, Scalar | None]], *, order: str) -> Page:
    """Return a page that others follow."""
    last, value = found[-1]
    return Page(tuple(row for row, _ in found), Cursor(order, value, last.id).encode())


def _walk(connection: Connection, where: Where, *, order: str, after: str | None, wanted: int) -> Select[Any] | None:
    """Return a statement that may fill the page sooner, where only words are asked for and an index has the order."""
    field = _ordering(order)
    cursor = Cursor.decode(after, order=order) if after is not None else None
    spoken = _spoken(where)
    if not spoken or field.root not in _INDEXED or (cursor is not None and cursor.value is None):
        return None
    descending = order.startswith("-")
    statement = _narrow(next(_phases(field, cursor, descending=descending)))
    return walk_some(connection, spoken, statement, wanted=wanted)


def _spoken(where: Where) -> list[Compare]:
    """Return the words that a filter asks for, if it asks for nothing else."""
    parts = parts_of(where)
    spoken = [part for part in parts if isinstance(part, Compare) and _asks_words(part)]
    return spoken if len(spoken) == len(parts) else []


def _asks_words(part: Where) -> bool:
    """Say whether a part of a filter asks for words."""
    return isinstance(part, Compare) and part.field == "text"


def page_statements(
    connection: Connection, where: Where, *, order: str, after: str | None = None, base: str | None
) -> list[Select[Any]]:
    """Return the statements whose rows, one after another, are the episodes after the cursor in that order."""
    field = _ordering(order)
    cursor = Cursor.decode(after, order=order) if after is not None else None
    descending = order.startswith("-")
    if field.root == "id" and (spoken := _spoken(where)):
        return [_worded(connection, spoken, cursor, descending=descending)]
    wanted = condition(connection, where, base=base)
    if _is_computed(field):
        return [each.where(wanted) for each in computed(connection, field, cursor, descending=descending, base=base)]
    return [statement.where(wanted) for statement in _phases(field, cursor, descending=descending)]


def _worded(
    connection: Connection, clauses: Sequence[Compare], cursor: Cursor | None, *, descending: bool
) -> Select[Any]:
    """Return the statement for the episodes with these words by id: read from the index in order, never all of them."""
    phrases = [phrase(clause.value) for clause in clauses]
    source, key, found = words_index(connection.dialect.name, document.c.words, document.c.episode_row, phrases)
    joined = source.join(episode, episode.c.id == key).outerjoin(root, root.c.id == episode.c.root_id)
    statement = select(*episode.c, *_PLACE, null().label("sorted_by")).select_from(joined).where(found)
    if cursor is not None:
        statement = statement.where(key < cursor.id if descending else key > cursor.id)
    return statement.order_by(key.desc() if descending else key.asc())


def _ordering(order: str) -> Field:
    field = field_of(order.removeprefix("-"))
    if not sortable(field):
        raise FilterError(f"expected a field of one value to order by (with - reversed), found {order!r}")
    return field


def _is_computed(field: Field) -> bool:
    return field.root not in ORDERS and field.root != "score"


def _phases(field: Field, cursor: Cursor | None, *, descending: bool) -> Iterator[Select[Any]]:
    """Yield the statement for the rows with a value, then that for those without.

    Two statements, because an index gives each in order, but not both mixed. Ordering by id has only the second.
    """
    scored = field.root == "score"
    key: ColumnElement[Any] = score.c.episode_row if scored else episode.c.id
    column = score.c.value if scored else None if field.root == "id" else episode.c[field.root]
    if column is not None and (cursor is None or cursor.value is not None):
        statement: Select[Any] = _SCORED.where(score.c.name == field.parts[0]) if scored else _rows(column.name)
        if column.nullable:
            statement = statement.where(column.is_not(None))
        if cursor is not None:
            place, last = tuple_(column, key), tuple_(literal(cursor.value, column.type), literal(cursor.id))
            statement = statement.where(place < last if descending else place > last)
        yield statement.order_by(*(part.desc() if descending else part.asc() for part in (column, key)))
    if column is None or column.nullable or scored:
        statement = _rows()
        if scored:
            has = (score.c.episode_row == episode.c.id, score.c.name == field.parts[0])
            statement = statement.where(~select(literal(1)).where(*has).correlate(episode).exists())
        elif column is not None:
            statement = statement.where(column.is_(None))
        if cursor is not None and cursor.value is None:
            statement = statement.where(episode.c.id < cursor.id if descending else episode.c.id > cursor.id)
        yield statement.order_by(episode.c.id.desc() if descending else episode.c.id.asc())


def count_rows(connection: Connection, where: Where, *, base: str | None) -> int:
    """Return how many episodes match."""
    wanted = condition(connection, where, base=base)
    return int(connection.execute(select(func.count()).select_from(episode).where(wanted)).scalar_one())


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
