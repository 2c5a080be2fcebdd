"""Cursors of pages: each page begins after the last row of the page before."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Integer, and_, bindparam, literal, null, select, tuple_

from catalog.database.column_types import BIG
from catalog.database.schema import episode, score
from catalog.filters.sql_fields import value_of
from catalog.filters.where import Compare
from catalog.values import INTEGER_LIMIT, Scalar
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Column, ColumnElement, Select
    from sqlalchemy.types import TypeEngine

    from catalog.filters.fields import Field


LAST_ID: Final[ColumnElement[int]] = bindparam("last_id", type_=BIG)


WANTED: Final[ColumnElement[int]] = bindparam("wanted", type_=Integer)
"""Parameters of statements: the id of the cursor, and the maximum number of rows."""


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
        """Parse the text of a cursor; raises FilterError for invalid text, or a cursor of another order."""
        try:
            padded = text.encode("ascii") + b"=" * (-len(text) % 4)
            stated_order, value, last = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (ValueError, TypeError, RecursionError, binascii.Error) as error:
            raise FilterError(f"expected the cursor of an earlier page, found {text!r}") from error
        is_id = isinstance(last, int) and not isinstance(last, bool) and 0 <= last <= INTEGER_LIMIT
        if stated_order != order or not is_id:
            raise FilterError(f"expected the cursor of a page ordered by {order}, found one of {stated_order!r}")
        if value is not None:
            value = Compare(order.removeprefix("-"), "eq", value).value
        return Cursor(order, value, last)


def last_value(type_: TypeEngine[Any]) -> ColumnElement[Any]:
    """Return the parameter for the value of the cursor."""
    return bindparam("last_value", type_=type_)


def cursor_state(cursor: Cursor | None) -> str:
    """Return where a page begins, for cache keys: at the start, after a value, or among missing values."""
    return "start" if cursor is None else "missing" if cursor.value is None else "value"


def has_values(cursor: Cursor | None) -> bool:
    """Return True if rows with a value may follow the cursor; after a missing value there are none."""
    return cursor is None or cursor.value is not None


def parameters(cursor: Cursor | None, *, wanted: int) -> dict[str, Any]:
    """Return the parameters of a statement for the rows after the cursor."""
    last = {} if cursor is None else {"last_id": cursor.id, "last_value": cursor.value}
    return {"wanted": wanted, **last}


_VALUE_KINDS: Final = ("flag", "number", "text")


def sortable(field: Field) -> bool:
    """Return True if an episode has at most one value of the field, so that it can be sorted by it."""
    return not field.many and field.root != "text"


def sort_column(field: Field) -> Column[Any]:
    """Return the column that orders episodes by a field of the table."""
    return episode.c.sort_key if field.root == "episode_id" else episode.c[field.root]


def values_of_kinds(connection: Connection, field: Field) -> dict[str, ColumnElement[Any]]:
    """Return a computed field as an expression for each kind of values that it may have, in their order."""
    kinds = _VALUE_KINDS if field.type is None else ["text"]  # value_of ignores the kind except for metadata
    return {kind: value_of(connection, field, kind=kind) for kind in kinds}


def computed_statements(
    connection: Connection, field: Field, cursor: Cursor | None, *, descending: bool
) -> Iterator[Select[Any]]:
    """Yield the statements for (id, value) of the episodes after the cursor, those without a value in the last one."""
    values = values_of_kinds(connection, field)
    phases = list(values.items())[:: -1 if descending else 1]
    if cursor is not None:
        phases = [] if cursor.value is None else phases[_phase_of(cursor, phases, field) :]
    for index, (_, value) in enumerate(phases):
        statement = select(episode.c.id, value.label("sorted_by")).where(value.is_not(None))
        if cursor is not None and index == 0:
            sort_key, last = tuple_(value, episode.c.id), tuple_(literal(cursor.value, value.type), literal(cursor.id))
            statement = statement.where(sort_key < last if descending else sort_key > last)
        yield statement.order_by(*(part.desc() if descending else part.asc() for part in (value, episode.c.id)))
    statement = select(episode.c.id, null().label("sorted_by")).where(
        and_(*(value.is_(None) for value in values.values()))
    )
    if cursor is not None and cursor.value is None:
        statement = statement.where(episode.c.id < cursor.id if descending else episode.c.id > cursor.id)
    yield statement.order_by(episode.c.id.desc() if descending else episode.c.id.asc())


def _phase_of(cursor: Cursor, phases: list[tuple[str, Any]], field: Field) -> int:
    """Return the index of the phase that the cursor's value belongs to."""
    if field.type is not None:
        return 0
    is_flag, is_text = isinstance(cursor.value, bool), isinstance(cursor.value, str)
    return [kind for kind, _ in phases].index("flag" if is_flag else "text" if is_text else "number")


def column_statements(
    field: Field, cursor: Cursor | None, *, descending: bool, value: ColumnElement[Any] | None = None
) -> Iterator[Select[Any]]:
    """Yield the statement for the rows with a value, then that for those without.

    Two statements, because an index gives each in order, but not both mixed. Ordering by id has only the second.
    value: an expression for it where no index is to give the order.
    """
    is_score = field.root == "score"
    column = score.c.value if is_score else None if field.root == "id" else sort_column(field)
    from_scores = is_score and value is None
    if column is not None and has_values(cursor):
        sort_value = column if value is None else value
        statement: Select[Any] = select(episode.c.id, sort_value.label("sorted_by"))
        if from_scores:
            joined = score.join(episode, episode.c.id == score.c.episode_row)
            statement = statement.select_from(joined).where(score.c.name == field.parts[0])
        elif column.nullable or is_score:
            statement = statement.where(sort_value.is_not(None))
        key: ColumnElement[Any] = score.c.episode_row if from_scores else episode.c.id
        if cursor is not None:
            sort_key, last = tuple_(sort_value, key), tuple_(last_value(column.type), LAST_ID)
            statement = statement.where(sort_key < last if descending else sort_key > last)
        yield statement.order_by(*(part.desc() if descending else part.asc() for part in (sort_value, key)))
    if column is None or column.nullable or is_score:
        statement = select(episode.c.id, null().label("sorted_by"))
        if is_score:
            has = (score.c.episode_row == episode.c.id, score.c.name == field.parts[0])
            statement = statement.where(~select(literal(1)).where(*has).correlate(episode).exists())
        elif column is not None:
            statement = statement.where(column.is_(None))
        if cursor is not None and cursor.value is None:
            statement = statement.where(episode.c.id < LAST_ID if descending else episode.c.id > LAST_ID)
        yield statement.order_by(episode.c.id.desc() if descending else episode.c.id.asc())
