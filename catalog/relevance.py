"""How well the words of an episode answer a text: BM25, the usual measure.

Knows: rare words count more, repeated ones less and less, and long texts need more of them. Any of the words is enough.
Does not know: how an index finds words (dialect.py), or what is searched (words.py).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, select

from catalog.conditions import condition
from catalog.filters import Compare, all_of, any_of
from catalog.queries import count_rows
from catalog.schema import document, episode
from catalog.words import BOUNDARY, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog.filters import Where

SATURATION: Final = 1.2
"""k1: a word that is there very often counts up to 2.2 times as much as one that is there once in a text as usual."""
LENGTHS: Final = 0.75
"""b: how much the length of a text matters, 0 to 1."""


def load_relevance(
    connection: Connection, text: str, where: Where, *, base: str | None, limit: int | None = None
) -> list[tuple[int, float]]:
    """Return (episode id, BM25 > 0) of the matching episodes that hold any of the words; best first, ties by id.

    limit: only so many of the best.
    """
    asked = list(dict.fromkeys(words(text)))
    if not asked:
        return []
    spoken = all_of(where, any_of(*(Compare("text", "contains", word) for word in asked)))
    joined = document.join(episode, episode.c.id == document.c.episode_row)
    statement = select(document.c.episode_row, document.c.words).select_from(joined)
    rows = connection.execute(statement.where(condition(connection, spoken, base=base))).all()
    if not rows:
        return []
    # Thousands of episodes have the same task, and as many tasks the same numbers: all that a score depends on.
    times = Counter(kept for _, kept in rows)
    numbers = {kept: _numbers(kept.split(), asked) for kept in times}
    alike: Counter[tuple[int, ...]] = Counter()
    for kept, count in times.items():
        alike[numbers[kept]] += count
    among = count_rows(connection, where, base=base)
    found = _scores(alike, among)
    least = _least(found, alike, limit)
    scores = {kept: found[each] for kept, each in numbers.items() if found[each] >= least}
    near = [(number, scores[kept]) for number, kept in rows if kept in scores]
    return sorted(near, key=lambda scored: (-scored[1], scored[0]))[:limit]


def _numbers(held: Sequence[str], asked: Sequence[str]) -> tuple[int, ...]:
    """Return how long a text is, and how often it holds each of the words."""
    return (len(held) - held.count(BOUNDARY), *map(held.count, asked))


def _scores(alike: Mapping[tuple[int, ...], int], among: int) -> dict[tuple[int, ...], float]:
    """Return the score of texts of these numbers; alike: of how many each are; among: how many texts there are."""
    usual = sum(length * count for (length, *_), count in alike.items()) / sum(alike.values())
    asked = range(1, len(next(iter(alike))))
    holding = [sum(count for each, count in alike.items() if each[word]) for word in asked]
    weights = [math.log(1 + (among - count + 0.5) / (count + 0.5)) for count in holding]
    return {each: _score(each[1:], weights, each[0] / usual) for each in alike}


def _score(found: Sequence[int], weights: Sequence[float], length: float) -> float:
    room = SATURATION * (1 - LENGTHS + LENGTHS * length)
    terms = zip(found, weights, strict=True)
    return math.fsum(weight * count * (SATURATION + 1) / (count + room) for count, weight in terms)


def _least(scores: Mapping[tuple[int, ...], float], alike: Mapping[tuple[int, ...], int], limit: int | None) -> float:
    """Return the score of the last of so many texts; the least of all where there are no more."""
    left = math.inf if limit is None else limit
    for each in sorted(scores, key=lambda each: -scores[each]):
        left -= alike[each]
        if left <= 0:
            return scores[each]
    return 0.0
