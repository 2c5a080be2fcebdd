"""Reading episodes: filters as SQL, rows, pages, counts and facets.

Knows: how a Where becomes a condition, and how to page by key instead of by offset. Does not know: how rows come to be.
`base` is the catalog's folder, None for a server.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import ColumnElement, Connection, and_, func, literal, not_, select, true, tuple_

from catalog.engine import one_of
from catalog.filters import FIELDS, OPERATORS, Compare, Where
from catalog.places import absolute
from catalog.records import INTEGER_LIMIT, EpisodeRow, LaneDefinition, Layout, Page, Scalar
from catalog.schema import episode, layout, root, tag
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

ORDERS = (*(field for field in FIELDS if field != "tag"), "ingested_at", "id")
"""What `select` can order by; a leading "-" reverses it."""

# An inner join would let SQLite begin with the roots and sort every episode; each episode has a root either way.
_ROWS = select(*episode.c, root.c.place, root.c.inside).select_from(episode.outerjoin(root))


def condition(connection: Connection, where: Where) -> ColumnElement[bool]:
    """Return the filter as a condition on the table episode."""
    return and_(true(), *(_clause(connection, clause) for clause in where.clauses))


def _clause(connection: Connection, clause: Compare) -> ColumnElement[bool]:
    column = tag.c.name if clause.field == "tag" else episode.c[clause.field]
    if clause.op == "in":
        found = one_of(connection, column, clause.values)
    elif clause.field == "tag":
        found = column == literal(clause.value, column.type)
    else:
        found = cast("ColumnElement[bool]", OPERATORS[clause.op](column, literal(clause.value, column.type)))
    if clause.field != "tag":
        return found
    carries = episode.c.id.in_(select(tag.c.episode_row).where(found))
    return not_(carries) if clause.op == "ne" else carries


def load_rows(connection: Connection, *conditions: ColumnElement[bool], base: str | None) -> list[EpisodeRow]:
    """Return the episodes that meet the conditions, by id."""
    return _load(connection, _ROWS.where(*conditions).order_by(episode.c.id), base=base)


def load_ids(connection: Connection, ids: Collection[int], *, base: str | None) -> list[EpisodeRow]:
    """Return the episodes of these ids, by id; unknown ids have none."""
    return load_rows(connection, one_of(connection, episode.c.id, ids), base=base) if ids else []


def _load(connection: Connection, statement: Any, *, base: str | None) -> list[EpisodeRow]:
    found = connection.execute(statement).mappings().all()
    tags = _tags(connection, [row["id"] for row in found])
    return [_row(row, tags=tags.get(row["id"], ()), base=base) for row in found]


def _row(row: Any, *, tags: Iterable[str], base: str | None) -> EpisodeRow:
    values = {column.name: row[column.name] for column in episode.c if column.name != "root_id"}
    values["path"] = absolute(base, row["place"], inside=row["inside"], path=row["path"])
    values["metadata"] = json.loads(row["metadata"])
    return EpisodeRow(**values, tags=tuple(tags))


def _tags(connection: Connection, ids: Collection[int]) -> dict[int, list[str]]:
    if not ids:
        return {}
    found: dict[int, list[str]] = {}
    statement = select(tag.c.episode_row, tag.c.name).where(one_of(connection, tag.c.episode_row, ids))
    for row, name in connection.execute(statement):
        found.setdefault(row, []).append(name)
    return {row: sorted(names) for row, names in found.items()}


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
        name = order.removeprefix("-")
        if value is not None:
            value = Compare(name if name in FIELDS else "key", "eq", value).value
        return Cursor(order, value, last)


def load_page(
    connection: Connection, where: Where, *, order: str, after: str | None, limit: int, base: str | None
) -> Page:
    """Return up to limit rows after the cursor; ties by id, missing values last in both directions."""
    name = order.removeprefix("-")
    if name not in ORDERS:
        raise FilterError(f"expected an order among {', '.join(ORDERS)} (with - reversed), found {order!r}")
    if limit < 1:
        raise FilterError(f"expected a limit of at least 1, found {limit}")
    cursor = Cursor.decode(after, order=order) if after is not None else None
    wanted = condition(connection, where)
    rows: list[EpisodeRow] = []
    for beyond, sorting in _phases(order, cursor):
        statement = _ROWS.where(wanted, *beyond).order_by(*sorting).limit(limit + 1 - len(rows))
        rows += _load(connection, statement, base=base)
        if len(rows) > limit:
            last = rows[limit - 1]
            value = None if name == "id" else getattr(last, name)
            return Page(tuple(rows[:limit]), Cursor(order, value, last.id).encode())
    return Page(tuple(rows), None)


def _phases(order: str, cursor: Cursor | None) -> Iterator[tuple[list[ColumnElement[bool]], list[ColumnElement[Any]]]]:
    """Yield (conditions, ordering) of the rows with a value, then of those without.

    Two statements, because an index gives each in order, but not both mixed. Ordering by id has only the second.
    """
    name, descending = order.removeprefix("-"), order.startswith("-")
    by_id: ColumnElement[Any] = episode.c.id.desc() if descending else episode.c.id.asc()
    column = None if name == "id" else episode.c[name]
    if column is not None and (cursor is None or cursor.value is not None):
        conditions: list[ColumnElement[bool]] = [column.is_not(None)] if column.nullable else []
        if cursor is not None:
            place, last = tuple_(column, episode.c.id), tuple_(literal(cursor.value, column.type), literal(cursor.id))
            conditions.append(place < last if descending else place > last)
        yield conditions, [column.desc() if descending else column.asc(), by_id]
    if column is None or column.nullable:
        conditions = [] if column is None else [column.is_(None)]
        if cursor is not None and cursor.value is None:
            conditions.append(episode.c.id < cursor.id if descending else episode.c.id > cursor.id)
        yield conditions, [by_id]


def count_rows(connection: Connection, where: Where) -> int:
    """Return how many episodes match."""
    return int(
        connection.execute(select(func.count()).select_from(episode).where(condition(connection, where))).scalar_one()
    )


def load_matching_ids(connection: Connection, where: Where) -> list[int]:
    """Return the ids of all matching episodes, ascending."""
    return sorted(connection.execute(select(episode.c.id).where(condition(connection, where))).scalars())


def load_facet(connection: Connection, field: str, *, where: Where) -> list[tuple[Scalar | None, int]]:
    """Return (value, episodes) of a field among the matching ones, the most frequent first; None counts the missing."""
    if field not in FIELDS:
        raise FilterError(f"expected a field among {', '.join(FIELDS)}, found {field!r}")
    column = tag.c.name if field == "tag" else episode.c[field]
    source = episode.join(tag) if field == "tag" else episode
    statement = (
        select(column, func.count())
        .select_from(source)
        .where(condition(connection, where))
        .group_by(column)
        .order_by(func.count().desc(), column)
    )
    return [(value, int(count)) for value, count in connection.execute(statement)]


def load_layouts(connection: Connection, where: Where) -> list[Layout]:
    """Return the layouts that at least one of the matching episodes has, by id."""
    statement = (
        select(layout.c.id, layout.c.definition, func.count(episode.c.id))
        .select_from(layout.join(episode))
        .where(condition(connection, where))
        .group_by(layout.c.id, layout.c.definition)
        .order_by(layout.c.id)
    )
    return [Layout(number, decode_lanes(text), int(count)) for number, text, count in connection.execute(statement)]


def encode_lanes(lanes: Iterable[LaneDefinition]) -> str:
    """Return the one text of a set of lanes, whatever their order."""
    ordered = sorted(([lane.name, lane.dtype, list(lane.shape)] for lane in lanes), key=lambda lane: str(lane[0]))
    return json.dumps(ordered, separators=(",", ":"))


def decode_lanes(text: str) -> tuple[LaneDefinition, ...]:
    """Read a layout's definition."""
    parsed: Sequence[Any] = json.loads(text)
    return tuple(LaneDefinition(name, dtype, tuple(shape)) for name, dtype, shape in parsed)
