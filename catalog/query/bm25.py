"""Rank episodes by how well their words match a text (BM25)."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, select

from catalog.database.schema import document, episode
from catalog.filters.to_sql import condition
from catalog.filters.where import MAX_COMPARISONS, Compare, all_of, any_of
from catalog.full_text import BOUNDARY, words
from catalog.query.pages import count_rows
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog.filters.where import Where

SATURATION: Final = 1.2
"""k1: a very frequent word counts up to 2.2 times as much as one that occurs once in a text of mean length."""
LENGTH_NORMALISATION: Final = 0.75
"""b: how much the length of a text reduces its score, 0 to 1."""
SAMPLED_TEXTS: Final = 256
"""Number of texts, those of the first episodes with any, whose mean length is used as that of all."""


def load_relevance(
    connection: Connection, text: str, where: Where, *, limit: int | None = None
) -> list[tuple[int, float]]:
    """Return (episode id, BM25 > 0) of the matching episodes that contain any of the words; best first, ties by id.

    limit: number of best results. The rarest words are then looked up first, and the others only while their maximum
    contribution could change the result. FilterError for more words than a filter allows.
    """
    clauses = _word_filters(text)
    document_counts = {word: count_rows(connection, all_of(where, clause)) for word, clause in clauses.items()}
    rarest = sorted(filter(document_counts.get, clauses), key=lambda word: document_counts[word])
    if not rarest or limit == 0:
        return []
    total = count_rows(connection, where)
    weights = [_weight(document_counts[word], total) for word in rarest]
    score = _scorer(rarest, weights, mean_length=_mean_length(connection))
    best: list[tuple[int, float]] = []
    for index, group in enumerate([[word] for word in rarest] if limit else [rarest]):
        any_word = any_of(*(clauses[word] for word in group))
        joined = document.join(episode, episode.c.id == document.c.episode_row)
        statement = select(document.c.episode_row, document.c.words).select_from(joined)
        matching = condition(connection, all_of(where, any_word))
        with connection.execute(statement.where(matching)) as result:
            best = _best(
                best, result.cursor.fetchall(), score, limit
            )  # raw tuples of the driver: SQLAlchemy's rows would double the time
        if len(best) == limit and best[-1][1] >= sum(weights[index + 1 :]) * (SATURATION + 1):
            break
    return best


def load_word_weights(connection: Connection, text: str, where: Where) -> dict[str, float]:
    """Return the weight of each word: the BM25 score of a text of mean length that contains it once."""
    total = count_rows(connection, where)
    document_counts = {
        word: count_rows(connection, all_of(where, clause)) for word, clause in _word_filters(text).items()
    }
    return {word: _weight(count, total) for word, count in document_counts.items()}


def _word_filters(text: str) -> dict[str, Compare]:
    clauses = {word: Compare("text", "contains", word) for word in dict.fromkeys(words(text))}
    if len(clauses) > MAX_COMPARISONS:
        raise FilterError(f"text: expected at most {MAX_COMPARISONS} different words, found {len(clauses)}")
    return clauses


def _weight(document_count: int, total: int) -> float:
    return math.log(1 + (total - document_count + 0.5) / (document_count + 0.5))


def _mean_length(connection: Connection) -> float:
    statement = select(document.c.words).order_by(document.c.episode_row).limit(SAMPLED_TEXTS)
    lengths = [_length(text.split()) for text in connection.execute(statement).scalars()]
    return sum(lengths) / len(lengths)


def _length(words: Sequence[str]) -> int:
    return len(words) - words.count(BOUNDARY)


def _scorer(rarest: Sequence[str], weights: Sequence[float], *, mean_length: float) -> Callable[[str], float]:
    """Return the function that scores a text."""
    cached_scores: dict[tuple[int, ...], float] = {}  # by length and word counts, which thousands of texts share

    def score(text: str) -> float:
        words = text.split()
        counts = (_length(words), *map(words.count, rarest))
        if counts not in cached_scores:
            saturation = SATURATION * (1 - LENGTH_NORMALISATION + LENGTH_NORMALISATION * counts[0] / mean_length)
            terms = zip(counts[1:], weights, strict=True)
            cached_scores[counts] = math.fsum(
                weight * count * (SATURATION + 1) / (count + saturation) for count, weight in terms
            )
        return cached_scores[counts]

    return score


def _best(
    best_so_far: Sequence[tuple[int, float]],
    rows: Sequence[tuple[int, str]],
    score: Callable[[str], float],
    limit: int | None,
) -> list[tuple[int, float]]:
    """Return the best of the earlier results and these rows, each episode once; limit None: all of them."""
    numbers: dict[str, list[int]] = {}  # thousands of episodes have the same task
    for number, text in rows:
        numbers.setdefault(text, []).append(number)
    known = dict(best_so_far)
    scored = [(-value, number) for number, value in best_so_far]
    for text, of_text in numbers.items():
        lowest_first = -score(text)
        scored += [(lowest_first, number) for number in of_text if number not in known]
    ordered = sorted(scored) if limit is None else heapq.nsmallest(limit, scored)
    return [(number, -negative) for negative, number in ordered]
