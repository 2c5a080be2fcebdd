"""Rank episodes by how well their words match a text (BM25)."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, select

from catalog.database.schema import document, episode
from catalog.filters.to_sql import condition
from catalog.filters.where import MAX_COMPARISONS, Compare, all_of, any_of
from catalog.full_text import BOUNDARY, words
from catalog.query.pages import count_rows
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog.filters.where import Where

SATURATION: Final = 1.2
"""k1: a word that is there very often counts up to 2.2 times as much as one that is there once in a text as usual."""
LENGTHS: Final = 0.75
"""b: how much the length of a text matters, 0 to 1."""
FIRST: Final = 256
"""The texts whose mean length is taken for the usual one: of the first episodes with any."""


def load_relevance(
    connection: Connection, text: str, where: Where, *, base: str | None, limit: int | None = None
) -> list[tuple[int, float]]:
    """Return (episode id, BM25 > 0) of the matching episodes that contain any of the words; best first, ties by id.

    limit: number of best results. The rarest words are then looked up first, and the others only while their maximum
    contribution could change the result. FilterError for more words than a filter allows.
    """
    clauses = _word_filters(text)
    holding = {word: count_rows(connection, all_of(where, clause), base=base) for word, clause in clauses.items()}
    rarest = sorted(filter(holding.get, clauses), key=lambda word: holding[word])
    if not rarest or limit == 0:
        return []
    among = count_rows(connection, where, base=base)
    weights = [_weight(holding[word], among) for word in rarest]
    score = _scorer(rarest, weights, usual=_usual_length(connection))
    best: list[tuple[int, float]] = []
    for place, group in enumerate([[word] for word in rarest] if limit else [rarest]):
        holds = any_of(*(clauses[word] for word in group))
        joined = document.join(episode, episode.c.id == document.c.episode_row)
        statement = select(document.c.episode_row, document.c.words).select_from(joined)
        wanted = condition(connection, all_of(where, holds), base=base)
        with connection.execute(statement.where(wanted)) as found:
            best = _best(best, found.cursor.fetchall(), score, limit)  # plain tuples: others take as long again
        if len(best) == limit and best[-1][1] >= sum(weights[place + 1 :]) * (SATURATION + 1):
            break
    return best


def load_word_weights(connection: Connection, text: str, where: Where, *, base: str | None) -> dict[str, float]:
    """Return what each word of a text weighs: what BM25 gives a text of the usual length that has it once."""
    among = count_rows(connection, where, base=base)
    holding = {word: count_rows(connection, all_of(where, one), base=base) for word, one in _word_filters(text).items()}
    return {word: _weight(count, among) for word, count in holding.items()}


def _word_filters(text: str) -> dict[str, Compare]:
    clauses = {word: Compare("text", "contains", word) for word in dict.fromkeys(words(text))}
    if len(clauses) > MAX_COMPARISONS:
        raise FilterError(f"text: expected at most {MAX_COMPARISONS} different words, found {len(clauses)}")
    return clauses


def _weight(holding: int, among: int) -> float:
    return math.log(1 + (among - holding + 0.5) / (holding + 0.5))


def _usual_length(connection: Connection) -> float:
    statement = select(document.c.words).order_by(document.c.episode_row).limit(FIRST)
    lengths = [_length(text.split()) for text in connection.execute(statement).scalars()]
    return sum(lengths) / len(lengths)


def _length(words: Sequence[str]) -> int:
    return len(words) - words.count(BOUNDARY)


def _scorer(rarest: Sequence[str], weights: Sequence[float], *, usual: float) -> Callable[[str], float]:
    """Return what gives a text its score."""
    known: dict[tuple[int, ...], float] = {}  # thousands of tasks have the same numbers, which are all that counts

    def score(text: str) -> float:
        words = text.split()
        numbers = (_length(words), *map(words.count, rarest))
        if numbers not in known:
            room = SATURATION * (1 - LENGTHS + LENGTHS * numbers[0] / usual)
            terms = zip(numbers[1:], weights, strict=True)
            known[numbers] = math.fsum(weight * count * (SATURATION + 1) / (count + room) for count, weight in terms)
        return known[numbers]

    return score


def _best(
    before: Sequence[tuple[int, float]],
    rows: Sequence[tuple[int, str]],
    score: Callable[[str], float],
    limit: int | None,
) -> list[tuple[int, float]]:
    """Return the best of those before and of these rows, each episode once."""
    times = Counter(text for _, text in rows)  # thousands of episodes have the same task
    scores = {text: score(text) for text in times}
    if limit is not None:
        least = _least(scores, times, limit)
        scores = {text: found for text, found in scores.items() if found >= least}
    near = {number: scores[text] for number, text in rows if text in scores} | dict(before)
    return sorted(near.items(), key=lambda scored: (-scored[1], scored[0]))[:limit]


def _least(scores: Mapping[str, float], times: Mapping[str, int], limit: int) -> float:
    """Return the lowest of the best scores; 0 if there are fewer."""
    left = limit
    for text in heapq.nlargest(limit, scores, key=scores.__getitem__):
        left -= times[text]
        if left <= 0:
            return scores[text]
    return 0.0
