"""The first page of an order, where many rows pass: by walking an index of SQLite a little way instead of sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Column, UnaryExpression, select, tuple_
from sqlalchemy.sql.operators import custom_op
from sqlalchemy.sql.visitors import replacement_traverse

from catalog.database.schema import episode
from catalog.filters.fields import FIELDS
from catalog.filters.where import comparisons

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from catalog.filters.fields import Field
    from catalog.filters.where import Where

_FAR: Final = 10_000
"""So many rows are walked: a hundredth of a second at most, where sorting half of a million takes a quarter of one."""
_INDEXED: Final = [[column.name for column in index.columns] for index in episode.indexes]
_IN_ORDER: Final = {columns[0] for columns in _INDEXED if columns[1:2] == ["id"]}
"""Columns that an index gives in order, ties by id."""
_PLAIN: Final = FIELDS.keys() & {column.name for column in episode.c} - {"path"}
"""Fields that are a column of the episode."""


def is_walkable(where: Where, field: Field) -> bool:
    """Say whether to walk the order of a field may find a page sooner than what the database would choose.

    It sorts where a condition has an index, whether few or nearly all rows pass; it does not where that index is sorted
    by the field. Conditions on other tables take as long for one row as for all.
    """
    filtered = {clause.about.root for clause in comparisons(where)}
    if not filtered or not filtered <= _PLAIN or field.root not in _IN_ORDER:
        return False
    return not any([root, field.root] == columns[:2] for root in filtered for columns in _INDEXED)


def walk_a_little(
    statement: Select[Any], field: Field, wanted: ColumnElement[bool], *, descending: bool
) -> Select[Any]:
    """Return the statement for the first rows of an order with a condition, as far as they stand near its beginning.

    statement: the rows of the order, before the condition.
    """
    key: tuple[ColumnElement[Any], ...] = (episode.c[field.root], episode.c.id)
    last = statement.with_only_columns(*key).offset(_FAR - 1).limit(1).subquery("last")
    end = select(*last.c).scalar_subquery()
    near = tuple_(*key) >= end if descending else tuple_(*key) <= end
    return statement.where(near, replacement_traverse(wanted, {}, _hide_column))


def _hide_column(element: Any, **_: Any) -> ColumnElement[Any] | None:
    return hidden(element) if isinstance(element, Column) and element.table is episode else None


def hidden(column: Column[Any]) -> ColumnElement[Any]:
    """Return a column as `+column`, for which SQLite uses no index."""
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type)
