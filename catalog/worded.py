"""Pages of episodes with words, in another order than their ids: found by walking that order for a while.

Knows: when so many episodes hold the words that the next few thousand in the order fill a page. The index of words
knows nothing of orders: asked for them all, it gives every episode that holds the words, to be sorted for one page.
Does not know: how pages are made (queries.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Connection, func, literal, literal_column, select

from catalog.dialect import stand_in, words_index
from catalog.schema import document, episode
from catalog.words import phrase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Select

    from catalog.filters import Compare

WALKED: Final = 4096
"""Episodes looked at before the index of words is asked after all."""
_SAMPLED: Final = 64


def walk_some(
    connection: Connection,
    clauses: Sequence[Compare],
    statement: Select[Any],
    *,
    column: ColumnElement[Any],
    descending: bool,
    wanted: int,
) -> Select[Any] | None:
    """Return the statement with those of its first rows that hold the words; None where the index is quicker.

    statement: episodes after a cursor, ordered by the column, which an index gives in order. What is returned looks at
    no more than WALKED of them, and may give fewer rows than there are. PostgreSQL makes this choice by itself.
    """
    phrases = [phrase(clause.value) for clause in clauses]
    if connection.dialect.name != "sqlite" or not _is_common(connection, phrases, wanted=wanted):
        return None
    ordered = statement.with_only_columns(column).order_by(None)
    bound = connection.execute(
        ordered.order_by(column.desc() if descending else column.asc()).offset(WALKED).limit(1)
    ).first()
    held = (document.c.episode_row == episode.c.id, stand_in(document.c.words, phrases))
    statement = statement.where(select(literal_column("1")).where(*held).correlate(episode).exists())
    if bound is None:
        return statement
    # Without the rows of that value itself: nobody knows how many there are.
    last = literal(bound[0], column.type)
    return statement.where(column > last if descending else column < last)


def _is_common(connection: Connection, phrases: Sequence[tuple[Sequence[str], bool]], *, wanted: int) -> bool:
    """Say whether the walk is likely to meet so many episodes with the words, by how close together the first lie."""
    source, key, found = words_index(connection.dialect.name, document.c.words, document.c.episode_row, phrases)
    sample = select(key).select_from(source).where(found).order_by(key).limit(_SAMPLED).subquery()
    ends = select(func.count(), func.min(sample.c[0]), func.max(sample.c[0]))
    count, first, last = connection.execute(ends).one()
    return bool(count == _SAMPLED and (last - first) * wanted <= WALKED * _SAMPLED)
