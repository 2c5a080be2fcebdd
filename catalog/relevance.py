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
    from catalog.filters import Where

SATURATION: Final = 1.2
"""k1: a word that is there very often counts up to 2.2 times as much as one that is there once in a text as usual."""
LENGTHS: Final = 0.75
"""b: how much the length of a text matters, 0 to 1."""


def load_relevance(connection: Connection, text: str, where: Where, *, base: str | None) -> list[tuple[int, float]]:
    """Return (episode id, BM25 > 0) of the matching episodes that hold any of the words; best first, ties by id."""
    asked = list(dict.fromkeys(words(text)))
    if not asked:
        return []
    spoken = all_of(where, any_of(*(Compare("text", "contains", word) for word in asked)))
    joined = document.join(episode, episode.c.id == document.c.episode_row)
    statement = select(document.c.episode_row, document.c.words).select_from(joined)
    rows = connection.execute(statement.where(condition(connection, spoken, base=base))).all()
    if not rows:
        return []
    times = Counter(kept for _, kept in rows)  # thousands of episodes have the same task
    held = {kept: [word for word in kept.split() if word != BOUNDARY] for kept in times}
    counted = {kept: Counter(word for word in found if word in asked) for kept, found in held.items()}
    usual = sum(count * len(held[kept]) for kept, count in times.items()) / len(rows)
    holding: Counter[str] = Counter()
    for kept, found in counted.items():
        holding.update(dict.fromkeys(found, times[kept]))
    among = count_rows(connection, where, base=base)
    weights = {word: math.log(1 + (among - count + 0.5) / (count + 0.5)) for word, count in holding.items()}
    scores = {kept: _score(found, weights, len(held[kept]) / usual) for kept, found in counted.items()}
    return sorted(((number, scores[kept]) for number, kept in rows), key=lambda scored: (-scored[1], scored[0]))


def _score(found: Counter[str], weights: dict[str, float], length: float) -> float:
    room = SATURATION * (1 - LENGTHS + LENGTHS * length)
    return math.fsum(weights[word] * count * (SATURATION + 1) / (count + room) for word, count in found.items())
