"""Pages of episodes with words, found by walking the order of the page for a while.

Knows: that beside the order stands of each episode, in bits, which words it may hold, so that few texts are looked at;
and when words are too rare for that. The index of words knows nothing of orders: asked for them all, it gives every
episode that holds the words, to be sorted for one page. Does not know: how pages are made (queries.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Connection, Integer, bindparam, literal, select
from sqlalchemy.exc import DBAPIError

from catalog.cursor import WANTED
from catalog.dialect import stand_in
from catalog.schema import document, episode
from catalog.words import bits, phrase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Select

    from catalog.filters import Compare

_FIRST: Final = 4096
"""Episodes that are looked at to learn how often the words are met: about as much work as all else for a page."""
_FEW: Final = 3
"""Fewer than these among the first do not tell how many there are."""
_MOST: Final = 65_536
"""Words that are not met often enough among so many are rare: the index of words then gives few episodes."""
_ALONE: Final = 4
"""How many times as soon the index of words is asked for words alone: it is quick where it need not see where they
stand, and what is looked at in vain before costs more than its answer."""
_OPERATIONS: Final = 16
"""Of SQLite's machine, for one episode; about half of them for one that lacks the words."""
_LOOKS: Final = 32
"""How often a walk is looked at: SQLite goes on counting where the one before ended, so that one look tells nothing."""
_MORE: Final = 2
"""How many times the likely number of episodes is looked at before the index of words is asked after all."""
_DEAR: Final = 8
"""How many times as long an episode takes whose row or text is looked at."""
PHRASES: Final = 16
"""More are not walked for: SQLite takes no expression of hundreds."""


@dataclass(frozen=True)
class Walk:
    """A walk that can be made again and again.

    beginning: asks for those of the first `steps` rows that hold the words; onward: for those of all. Both for `wanted`
    rows. dear: how many times as long an episode takes as one whose word bits say enough; alone: whether it is asked
    for words that may stand anywhere.
    """

    beginning: Select[Any]
    onward: Select[Any]
    dear: int
    alone: bool


def walk_of(clauses: Sequence[Compare], statement: Select[Any], *, dear: bool) -> Walk:
    """Return the walk along the rows of a statement to those that hold the words.

    statement: id of an episode and what it is ordered by, which an index gives in order; dear: without word bits.
    """
    phrases = [phrase(clause.value) for clause in clauses]
    asked = bits(" ".join(word for found, begun in phrases for word in found[: len(found) - begun]))
    # No order: rows come as they are met, and the rest is not looked at. Sorting would begin with all of them.
    walked = statement.add_columns(episode.c.word_bits).limit(bindparam("steps", type_=Integer)).subquery()
    number, value, held = walked.c
    return Walk(
        select(number, value).where(*_conditions(number, held, phrases, asked)).limit(WANTED),
        statement.where(*_conditions(episode.c.id, episode.c.word_bits, phrases, asked)).limit(WANTED),
        dear=_DEAR if dear or not asked else 1,
        alone=all(len(found) == 1 for found, _ in phrases),
    )


def walk(connection: Connection, by: Walk, asked: Mapping[str, Any]) -> list[tuple[int, Any]] | None:
    """Return as many of its first rows that hold the words as are wanted; None where the index of words is quicker.

    asked: the parameters of its statement, and how many rows are wanted.
    """
    wanted, impatience = asked["wanted"], by.dear * (_ALONE if by.alone else 1)
    steps, most = _FIRST // impatience, _MOST // impatience
    found = pairs(connection, by.beginning, {**asked, "steps": steps})
    if len(found) == wanted:
        return found
    likely = steps * wanted // max(1, len(found))
    if len(found) < _FEW or likely > most:
        return None
    steps = min(most, _MORE * likely)
    if connection.dialect.name == "sqlite" and by.dear == 1:
        return _met(connection, by, asked, steps=steps)
    found = pairs(connection, by.beginning, {**asked, "steps": steps})
    return found if len(found) == wanted else None


def _met(connection: Connection, by: Walk, asked: Mapping[str, Any], *, steps: int) -> list[tuple[int, Any]] | None:
    """Return as many of its first rows that hold the words as are wanted; None where SQLite takes too many steps.

    To hand each row to another query, which counts them, takes twice as long as to look at it.
    """
    raw: Any = connection.connection.driver_connection
    looks = count()
    raw.set_progress_handler(lambda: next(looks) > _LOOKS, max(1, steps * _OPERATIONS // _LOOKS))
    try:
        found = pairs(connection, by.onward, asked)
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorname", None) != "SQLITE_INTERRUPT":
            raise
        return None
    finally:
        raw.set_progress_handler(None, 0)
    return found if len(found) == asked["wanted"] else None


def _conditions(
    number: ColumnElement[int], held: ColumnElement[int], phrases: Sequence[tuple[Sequence[str], bool]], asked: int
) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return that the episode of this number holds the words: its bits do, and its text does.

    The text is asked for as a value, for a condition that it exists might be joined in an order of its own.
    """
    spoken = select(stand_in(document.c.words, phrases)).where(document.c.episode_row == number).scalar_subquery()
    return held.bitwise_and(literal(asked)) == literal(asked), spoken


def pairs(connection: Connection, statement: Select[Any], asked: Mapping[str, Any]) -> list[tuple[int, Any]]:
    """Return the rows of a statement of two columns: id and what it is ordered by."""
    return [(number, value) for number, value in connection.execute(statement, asked).all()]
