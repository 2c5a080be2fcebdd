"""Rank episodes by how well their words match a text (BM25)."""

from __future__ import annotations

import math
from bisect import insort
from itertools import repeat
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, func, literal, select

from catalog.database.schema import document, episode
from catalog.filters.to_sql import condition, find_words
from catalog.filters.where import EVERYTHING, MAX_COMPARISONS, Compare, all_of, any_of
from catalog.full_text import BOUNDARY, words
from catalog.query.pages import count_rows
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.filters.where import Where

SATURATION: Final = 1.2
"""k1: a very frequent word counts up to 2.2 times as much as one that occurs once in a text of mean length."""
LENGTH_NORMALISATION: Final = 0.75
"""b: how much the length of a text reduces its score, 0 to 1."""
SAMPLED_TEXTS: Final = 256
"""Number of texts, those of the first episodes with any, whose mean length is used as that of all."""

_TEXT: Final = literal(" ") + func.replace(document.c.words, f" {BOUNDARY} ", " ")  # words, each after a space


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
    scores = _Scores(rarest, weights, _mean_length(connection))
    if limit is None:
        found = [(-scores.of(text), number) for number, text in _load_texts(connection, where, [*clauses.values()])]
        return [(number, -negative) for negative, number in sorted(found)]
    best: list[tuple[int, float]] = []
    any_word = any_of(*clauses.values())
    for index, word in enumerate(rarest):
        rows = _load_texts(connection, where, [clauses[word]])
        best = _best(best, rows, scores, limit)
        if len(best) == limit and best[-1][1] >= sum(weights[index + 1 :]) * (SATURATION + 1):
            break
        if len(rows) >= document_counts[rarest[-1]] and len(rows) == count_rows(connection, all_of(where, any_word)):
            break  # every text has been scored
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


def _load_texts(connection: Connection, where: Where, clauses: Sequence[Compare]) -> Sequence[tuple[int, str]]:
    """Return (episode id, text) of the matching episodes that contain any of the words, by id."""
    source, key, matching = find_words(connection, clauses, "OR")
    texts = source if source is document else source.join(document, document.c.episode_row == key)
    statement = select(key, _TEXT).where(matching).order_by(key)
    if where != EVERYTHING:
        texts = texts.join(episode, episode.c.id == document.c.episode_row)
        statement = statement.where(condition(connection, where))
    with connection.execute(statement.select_from(texts)) as result:
        rows: Sequence[tuple[int, str]] = result.cursor.fetchall()  # of the driver: SQLAlchemy's take twice the time
        return rows


def _mean_length(connection: Connection) -> float:
    statement = select(_TEXT).order_by(document.c.episode_row).limit(SAMPLED_TEXTS)
    lengths = [text.count(" ") for text in connection.execute(statement).scalars()]
    return sum(lengths) / len(lengths)


class _Scores(dict[tuple[int, ...], float]):
    """BM25 by the length of a text and how often it has each word: thousands of texts have these in common."""

    def __init__(self, words: Sequence[str], weights: Sequence[float], mean_length: float) -> None:
        super().__init__()
        self.words, self._weights, self._mean_length = words, weights, mean_length

    def __missing__(self, key: tuple[int, ...]) -> float:
        saturation = SATURATION * (1 - LENGTH_NORMALISATION + LENGTH_NORMALISATION * key[0] / self._mean_length)
        terms = zip(key[1:], self._weights, strict=True)
        self[key] = math.fsum(weight * count * (SATURATION + 1) / (count + saturation) for count, weight in terms)
        return self[key]

    def of(self, text: str) -> float:
        """Return the score of a text."""
        found = text.split()
        return self[len(found), *map(found.count, self.words)]

    def bounds(self, texts: Sequence[str]) -> list[float]:
        """Return the most that each text can score: if all that begins with one of the words were this word."""
        counts = [map(str.count, texts, repeat(beginning)) for beginning in (" ", *(f" {word}" for word in self.words))]
        return list(map(self.__getitem__, zip(*counts, strict=True)))


def _best(
    best_so_far: Sequence[tuple[int, float]], rows: Sequence[tuple[int, str]], scores: _Scores, limit: int
) -> list[tuple[int, float]]:
    """Return the best of the earlier results and these rows, each episode once.

    Only the texts whose bounds are enough to be among them are split into words.
    """
    best, known = [(-value, number) for number, value in best_so_far], dict(best_so_far)
    bounds = scores.bounds([text for _, text in rows])
    for place in sorted(range(len(rows)), key=bounds.__getitem__, reverse=True):
        number, text = rows[place]
        if len(best) == limit and (-bounds[place], number) > best[-1]:
            break
        if number not in known:
            insort(best, (-scores.of(text), number))
            del best[limit:]
    return [(number, -negative) for negative, number in best]
