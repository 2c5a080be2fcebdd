"""Pages of episodes with words, found by walking the order of the page for a while.

The index of words knows nothing of orders: asked for them all, it gives every episode that holds the words, to be
sorted for one page.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Connection, Integer, bindparam, literal, select
from sqlalchemy.exc import DBAPIError

from catalog.database.schema import document, episode
from catalog.database.sql_functions import stand_in
from catalog.full_text import bits, phrase
from catalog.query.paging import WANTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Select

    from catalog.filters.where import Compare

_MOST: Final = 65_536
"""Words that are not met often enough among so many are rare: the index of words then gives few episodes."""
_ALONE: Final = 4
"""How many times as soon the index of words is asked for words alone: it is quick where it need not see where they
stand, and what is looked at in vain before costs more than its answer."""
_BEGINNING: Final = 16
"""The part of the most that tells how often the words are met: about as much work as all else for a page."""
_FEW: Final = 3
"""Fewer than these there do not tell how many there are."""
_MORE: Final = 2
"""How many times the likely number of episodes is looked at before the index of words is asked after all."""
_OPERATIONS: Final = 5
"""Of SQLite's machine, for one episode that lacks the words."""
_LOOK: Final = 128
"""Episodes between two looks at a walk of SQLite."""
_PAGE: Final = 50
"""Fewer than these are looked for no longer: where the words are rare, the index of words gives few to be sorted."""
_LUCK: Final = 4
"""So many more are thought to be met than were: the first of words that are common enough may come late."""
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


@dataclass
class Met:
    """How far apart the words are in an order, in episodes, as its first page told: its next ones need not ask again.

    None where nothing was told yet, and after a page on which they were not met as often.
    """

    apart: int | None = None


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


def walk(connection: Connection, by: Walk, asked: Mapping[str, Any], met: Met) -> list[tuple[int, Any]] | None:
    """Return as many of its first rows that hold the words as are wanted; None where the index of words is quicker.

    asked: the parameters of its statement, and how many rows are wanted; met: what the page before told, if there is
    one.
    """
    most = _MOST // (by.dear * (_ALONE if by.alone else 1))
    if connection.dialect.name == "sqlite" and by.dear == 1:
        found = _watched(connection, by, asked, most=most)
    else:
        found = _begun(connection, by, asked, met, most=most)
    if len(found) == asked["wanted"]:
        return found
    met.apart = None
    return None


def _begun(connection: Connection, by: Walk, asked: Mapping[str, Any], met: Met, *, most: int) -> list[tuple[int, Any]]:
    """Return its first rows that hold the words, fewer than wanted where its beginning tells that they are rare."""
    found: list[tuple[int, Any]] = []
    steps, apart = most // _BEGINNING, met.apart
    if apart is None:
        found = pairs(connection, by.beginning, {**asked, "steps": steps})
        if len(found) < min(_FEW, asked["wanted"]):
            return found
        apart = met.apart = steps // len(found)
    likely = apart * asked["wanted"]
    if len(found) == asked["wanted"] or likely > most:
        return found
    return pairs(connection, by.beginning, {**asked, "steps": min(most, max(steps, _MORE * likely))})


def _watched(connection: Connection, by: Walk, asked: Mapping[str, Any], *, most: int) -> list[tuple[int, Any]]:
    """Return its first rows that hold the words, fewer than wanted where SQLite takes more steps than they are worth.

    One statement, judged while it runs: to hand each row to another query, which counts them, takes twice as long.
    """
    found: list[tuple[int, Any]] = []
    looks = count(1)
    wanted: int = max(asked["wanted"], _PAGE)

    def hopeless() -> bool:
        return next(looks) * _LOOK * wanted > most * (len(found) + _LUCK)

    raw: Any = connection.connection.driver_connection
    raw.set_progress_handler(hopeless, _LOOK * _OPERATIONS)
    try:
        with connection.execute(by.onward, asked) as rows:
            while row := rows.fetchone():  # one by one, so that they are counted as they are met
                found.append((row[0], row[1]))
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorname", None) != "SQLITE_INTERRUPT":
            raise
    finally:
        raw.set_progress_handler(None, 0)
    return found


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
