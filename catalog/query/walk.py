"""The first page of an order if many rows match: SQLite walks the start of an index instead of sorting all matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Column, UnaryExpression, select, tuple_
from sqlalchemy.sql.operators import custom_op
from sqlalchemy.sql.visitors import replacement_traverse

from catalog.database.schema import episode
from catalog.filters.fields import FIELDS
from catalog.filters.where import comparisons
from catalog.query.paging import sort_column

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from catalog.filters.fields import Field
    from catalog.filters.where import Where

_MAX_ROWS_WALKED: Final = 10_000
"""Maximum number of rows walked: a hundredth of a second; sorting half a million takes a quarter of a second."""
_INDEXED: Final = [[column.name for column in index.columns] for index in episode.indexes]
_ORDERED_COLUMNS: Final = {columns[0] for columns in _INDEXED if columns[1:2] == ["id"]}
"""Columns that an index gives in order, ties by id."""
_COLUMN_FIELDS: Final = FIELDS.keys() & {column.name for column in episode.c} - {"path"}
"""Fields that are a column of the episode."""


def is_walkable(where: Where, field: Field) -> bool:
    """Return True if walking the order of a field may find a page faster than the plan that SQLite would choose.

    SQLite finds and sorts all matches if a condition has an index, even if nearly all rows match, unless that index is
    also in the order of the field. Conditions on other tables take as long for one row as for all.
    """
    filtered_fields = {clause.about.root for clause in comparisons(where)}
    order = sort_column(field).name if field.root in _COLUMN_FIELDS else None
    if not filtered_fields or not filtered_fields <= _COLUMN_FIELDS or order not in _ORDERED_COLUMNS:
        return False
    return not any([root, order] == columns[:2] for root in filtered_fields for columns in _INDEXED)


def limit_to_near_rows(
    statement: Select[Any], field: Field, matching: ColumnElement[bool], *, descending: bool
) -> Select[Any]:
    """Return the statement restricted to matching rows among the first ones of the order.

    statement: all rows in the order, without the condition `matching`.
    """
    key: tuple[ColumnElement[Any], ...] = (sort_column(field), episode.c.id)
    last = statement.with_only_columns(*key).offset(_MAX_ROWS_WALKED - 1).limit(1).subquery("last")
    end = select(*last.c).scalar_subquery()
    near = tuple_(*key) >= end if descending else tuple_(*key) <= end
    return statement.where(near, replacement_traverse(matching, {}, _hide_column))


def _hide_column(element: Any, **_: Any) -> ColumnElement[Any] | None:
    return hidden(element) if isinstance(element, Column) and element.table is episode else None


def hidden(column: Column[Any]) -> ColumnElement[Any]:
    """Return a column as `+column`, which prevents SQLite from using an index for it."""
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type)
