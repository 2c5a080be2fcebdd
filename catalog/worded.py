"""Pages of episodes with words, in another order than their ids: found by walking that order for a while.

Knows: when so many episodes hold the words that the next few thousand in the order fill a page. The index of words
knows nothing of orders: asked for them all, it gives every episode that holds the words, to be sorted for one page.
Does not know: how pages are made (queries.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, func, literal_column, select

from catalog.dialect import contains, stand_in, words_index
from catalog.schema import document, episode
from catalog.words import phrase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Select

    from catalog.filters import Compare

_SAMPLED: Final = 64
_PHRASES: Final = 16  # SQLite takes no expression of hundreds
_MORE: Final = 2
"""How many times the likely number of episodes is looked at before the index of words is asked after all."""


def walk_some(
    connection: Connection, clauses: Sequence[Compare], statement: Select[Any], *, wanted: int
) -> Select[Any] | None:
    """Return the statement for those of its first rows that hold the words; None where the index is quicker.

    statement: id of an episode and what it is ordered by, which an index gives in order. What is returned may give
    fewer rows than there are. PostgreSQL makes this choice by itself.
    """
    if connection.dialect.name != "sqlite" or len(clauses) > _PHRASES:
        return None
    phrases = [phrase(clause.value) for clause in clauses]
    steps = _steps(connection, phrases, wanted=wanted)
    if steps is None:
        return None
    walked = statement.limit(steps).subquery()
    number, value = walked.c
    # The words as they stand first: to look at their ends too takes a copy.
    roughly = (contains(document.c.words, " ".join(asked)) for asked, _ in phrases)
    held = (document.c.episode_row == number, *roughly, stand_in(document.c.words, phrases))
    # No order here: rows come as they are met, and the rest is not looked at. Sorting would begin with all of them.
    found = select(number, value).where(select(literal_column("1")).where(*held).correlate(walked).exists())
    return found.limit(wanted)


def _steps(connection: Connection, phrases: Sequence[tuple[Sequence[str], bool]], *, wanted: int) -> int | None:
    """Return how many episodes are likely to hold as many with the words as are wanted.

    Judged by how close together the first of these lie; None where there are fewer with the words to sort than that.
    """
    source, key, found = words_index(connection.dialect.name, document.c.words, document.c.episode_row, phrases)
    sample = select(key).select_from(source).where(found).order_by(key).limit(_SAMPLED).subquery()
    last_id = select(func.max(episode.c.id)).scalar_subquery()
    count, first, last, newest = connection.execute(
        select(func.count(), func.min(sample.c[0]), func.max(sample.c[0]), last_id)
    ).one()
    if count < _SAMPLED:
        return None
    apart = (last - first) / (_SAMPLED - 1)
    steps = math.ceil(_MORE * wanted * apart)
    return steps if steps * apart <= newest else None
