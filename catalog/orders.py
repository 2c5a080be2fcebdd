"""Pages in orders that no index gives: by path, review, metadata, statistics of lanes.

Knows: that all that matches is sorted for each of these pages, metadata by kind: flags, numbers, then text. Does not
know: orders of columns and scores (queries.py). `base` is the catalog's folder, None for a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, and_, literal, null, select, tuple_

from catalog.field_tables import value_of
from catalog.schema import episode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Select

    from catalog.cursor import Cursor
    from catalog.fields import Field

_KINDS: Final = ("flag", "number", "text")


def sortable(field: Field) -> bool:
    """Say whether an episode has one value of the field at most, by which it can be sorted."""
    return not field.many and field.root != "text"


def computed(
    connection: Connection, field: Field, cursor: Cursor | None, *, descending: bool, base: str | None
) -> Iterator[Select[Any]]:
    """Yield the statements for (id, value) of the episodes after the cursor, those without a value in the last one."""
    kinds = list(_KINDS) if field.type is None else ["text"]  # of which value_of makes something for metadata only
    values = [value_of(connection, field, kind=kind, base=base) for kind in kinds]
    phases = list(zip(kinds, values, strict=True))[:: -1 if descending else 1]
    if cursor is not None:
        phases = [] if cursor.value is None else phases[_place(cursor, phases, field) :]
    for place, (_, value) in enumerate(phases):
        statement = select(episode.c.id, value.label("sorted_by")).where(value.is_not(None))
        if cursor is not None and place == 0:
            here, last = tuple_(value, episode.c.id), tuple_(literal(cursor.value, value.type), literal(cursor.id))
            statement = statement.where(here < last if descending else here > last)
        yield statement.order_by(*(part.desc() if descending else part.asc() for part in (value, episode.c.id)))
    statement = select(episode.c.id, null().label("sorted_by")).where(and_(*(value.is_(None) for value in values)))
    if cursor is not None and cursor.value is None:
        statement = statement.where(episode.c.id < cursor.id if descending else episode.c.id > cursor.id)
    yield statement.order_by(episode.c.id.desc() if descending else episode.c.id.asc())


def _place(cursor: Cursor, phases: list[tuple[str, Any]], field: Field) -> int:
    """Return which of the phases the cursor's value is of."""
    if field.type is not None:
        return 0
    is_flag, is_text = isinstance(cursor.value, bool), isinstance(cursor.value, str)
    return [kind for kind, _ in phases].index("flag" if is_flag else "text" if is_text else "number")
