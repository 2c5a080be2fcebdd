"""Rank episodes by how well their words match a text (BM25)."""

from __future__ import annotations

import math
from bisect import insort
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from catalog.database.schema import document, episode
from catalog.database.text_search import is_too_long, join_rows
from catalog.filters.to_sql import condition, find_words
from catalog.filters.where import EVERYTHING, MAX_COMPARISONS, Compare, all_of, any_of
from catalog.full_text import BOUNDARY, words
from catalog.query.pages import count_rows
from catalog.query.statement_cache import remember
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import Select

    from catalog.filters.where import Where

SATURATION: Final = 1.2
"""k1: a very frequent word counts up to 2.2 times as much as one that occurs once in a text of mean length."""
LENGTH_NORMALISATION: Final = 0.75
"""b: how much the length of a text reduces its score, 0 to 1."""
SAMPLED_TEXTS: Final = 256
"""Number of texts, those of the first episodes with any, whose mean length is used as that of all."""

_SEPARATORS: Final = (",", "\n ")  # of ids and texts

_SAMPLE: Final = select(document.c.words).order_by(document.c.episode_row).limit(SAMPLED_TEXTS)

_READ_AT_ONCE: Final = 100_000  # episodes: databases limit the length of one text

_MARK: Final = f" {BOUNDARY} "


class _Found(NamedTuple):
    """Ids of episodes in ascending order, as text, and the text of each: words, each after a space."""

    ids: list[str]
    texts: list[str]


def load_relevance(
    connection: Connection, text: str, where: Where, *, limit: int | None = None
) -> list[tuple[int, float]]:
    """Return (episode id, BM25 > 0) of the matching episodes that contain any of the words; best first, ties by id.

    limit: number of best results. The rarest words are then looked up first, and the others only while their maximum
    contribution could change the result. FilterError for more words than a filter allows.
    """
    clauses = _word_filters(text)
    if not clauses or limit == 0:
        return []
    total = count_rows(connection, where)
    read = partial(_load_texts, connection, where, total)
    found = read([*clauses.values()]) if len(clauses) == 1 or limit is None else _Found([], [])
    if len(clauses) == 1:
        document_counts = dict.fromkeys(clauses, len(found.texts))
    else:
        document_counts = {word: count_rows(connection, all_of(where, clause)) for word, clause in clauses.items()}
    rarest = sorted(filter(document_counts.get, clauses), key=lambda word: document_counts[word])
    if not rarest:
        return []
    weights = [_weight(document_counts[word], total) for word in rarest]
    scores = _Scores(rarest, weights, _mean_length(connection))
    if limit is None:
        scored = zip(map(int, found.ids), map(scores.of, found.texts), strict=True)
        return sorted(scored, key=lambda one: (-one[1], one[0]))
    if len(clauses) == 1:
        return _best([], found, scores, limit)
    best: list[tuple[int, float]] = []
    any_word = any_of(*clauses.values())
    for index, word in enumerate(rarest):
        found = read([clauses[word]])
        best = _best(best, found, scores, limit)
        if len(best) == limit and best[-1][1] >= sum(weights[index + 1 :]) * (SATURATION + 1):
            break
        count = len(found.texts)
        if count >= document_counts[rarest[-1]] and count == count_rows(connection, all_of(where, any_word)):
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


def _load_texts(connection: Connection, where: Where, total: int, clauses: Sequence[Compare]) -> _Found:
    """Return those of the `total` matching episodes that contain any of the words."""
    statement = partial(_select_texts, connection, where, clauses)
    if total <= _READ_AT_ONCE:
        whole = _read(connection, remember(where, ("words", connection.dialect.name, *clauses), statement))
        if whole is not None:
            return whole
    found, last = _Found([], []), connection.execute(select(func.max(episode.c.id))).scalar_one()
    parts = [(start, start + _READ_AT_ONCE - 1) for start in range(0, last + 1, _READ_AT_ONCE)][::-1]
    while parts:
        start, stop = parts.pop()
        some = _read(connection, statement((start, stop)), may_split=start < stop)
        if some is None:
            middle = (start + stop) // 2
            parts += [(middle + 1, stop), (start, middle)]
        else:
            found.ids.extend(some.ids)
            found.texts.extend(some.texts)
    return found


def _select_texts(
    connection: Connection, where: Where, clauses: Sequence[Compare], between: tuple[int, int] | None = None
) -> Select[Any]:
    """Return the statement for their ids and words; between: only these ids."""
    source, key, matching = find_words(connection, clauses, "OR")
    texts = source if source is document else source.join(document, document.c.episode_row == key)
    statement = select(key.label("id"), document.c.words).where(matching).order_by(key)
    if where != EVERYTHING:
        texts = texts.join(episode, episode.c.id == document.c.episode_row)
        statement = statement.where(condition(connection, where))
    if between is not None:
        statement = statement.where(key.between(*between))
    return join_rows(statement.select_from(texts), _SEPARATORS)


def _read(connection: Connection, statement: Select[Any], *, may_split: bool = True) -> _Found | None:
    """Return what a statement joins, None where that is too long for the database and may be read in parts."""
    try:
        with connection.begin_nested():  # PostgreSQL ends the transaction otherwise
            ids, found = connection.execute(statement).one()
    except DBAPIError as error:
        if may_split and is_too_long(error):
            return None
        raise
    if ids is None:
        return _Found([], [])
    texts = " ".join(found.split(_MARK))  # in half the time of replacing the marks
    return _Found(ids.split(","), f" {texts}".split("\n"))


def _mean_length(connection: Connection) -> float:
    lengths: list[int] = [1 + text.count(" ") - text.count(BOUNDARY) for text in connection.scalars(_SAMPLE)]
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
    best_so_far: Sequence[tuple[int, float]], found: _Found, scores: _Scores, limit: int
) -> list[tuple[int, float]]:
    """Return the best of the earlier results and these episodes, each once.

    Only the texts whose bounds are enough to be among them are split into words.
    """
    best, known = [(-value, number) for number, value in best_so_far], dict(best_so_far)
    bounds = scores.bounds(found.texts)
    for place in _descending(bounds, {*scores.values()}):
        number = int(found.ids[place])
        if len(best) == limit and (-bounds[place], number) > best[-1]:
            break
        if number not in known:
            insort(best, (-scores.of(found.texts[place]), number))
            del best[limit:]
    return [(number, -negative) for negative, number in best]


def _descending(values: Sequence[float], different: Collection[float]) -> Iterator[int]:
    """Yield the places of the values, the greatest first, equal ones in order; few are different, and few are read."""
    for value in sorted(different, reverse=True):
        place = -1
        for _ in range(values.count(value)):
            place = values.index(value, place + 1)
            yield place
