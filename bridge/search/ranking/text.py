"""Ranks episodes by text: by the words of their texts, and by meaning where a sentence encoder is given."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Answer, Explanation, Match, read_vectors
from bridge.search.ranking.rankers import depth, join_explanations
from catalog.full_text import LOOKED_AT
from embedders.text.base import encode_by, text_space
from wshard.errors import SpaceMismatchError

if TYPE_CHECKING:
    from bridge.archive import Archive
    from bridge.index.base import Request, Vectors
    from bridge.search.ranking.rankers import Ranker
    from embedders.space import Space
    from embedders.text.base import TextEncoder


WORDS_WEIGHT: Final = 0.1
"""Weight of words beside meaning: they decide among texts of similar meaning."""


def name_texts(text: str | None, encoder: TextEncoder | None) -> str:
    """Return which texts of episodes a search looks at; "" without a text."""
    return "" if text is None else f"{'meaning of tasks, ' * (encoder is not None)}{LOOKED_AT}"


def rank_by_text(archive: Archive, text: str, encoder: TextEncoder | None) -> Ranker:
    """Return the ranker of a text: by its words, and where there is an encoder by its meaning first.

    Raises SpaceMismatchError where the archive has no vectors of the encoder, EmbedderError if the encoder fails.
    """
    words = _Words(archive, text)
    if encoder is None:
        return words
    space = text_space(encoder)
    if not any(row.fingerprint == space.fingerprint for row in archive.catalog.vectors.spaces("active")):
        raise SpaceMismatchError(
            f"the archive has no vectors of the text encoder {encoder.name!r} {dict(space.parameters)}: ingest with "
            f"it first (`wshard ingest ... --text-encoder FOLDER`), or search by words only"
        )
    return _Meaning(archive, words, space, encode_by(encoder, [text])[0])


@dataclass(frozen=True, eq=False)
class _Words:
    """Ranks by the words of texts (BM25); the best episode has score 1, the others their share of it."""

    archive: Archive
    text: str

    def __call__(self, request: Request) -> Answer:
        started = time.perf_counter()
        relevant = self.archive.catalog.query.relevant(self.text, request.where, limit=request.top_k)
        best = relevant[0][1] if relevant else 1.0
        matches = [Match(id_, 0, score / best) for id_, score in relevant]
        milliseconds = {"words": (time.perf_counter() - started) * 1e3}
        explained = (
            Explanation("words", 0, 0, 0, 0, 0, milliseconds) if request.explain else None
        )  # no vectors are compared
        return Answer(tuple(matches), exact=True, scored=len(relevant), explained=explained)

    def best(self, request: Request) -> float:
        """Return the BM25 of the best episode."""
        relevant = self.archive.catalog.query.relevant(self.text, request.where, limit=1)
        return relevant[0][1] if relevant else 0.0

    def weights(self, request: Request) -> list[float]:
        """Return the weight of each word of the text."""
        return [*self.archive.catalog.query.word_weights(self.text, request.where).values()]


@dataclass(frozen=True, eq=False)
class _Meaning:
    """Ranks by the cosine of the task descriptions with the query text, and with a small weight by shared words.

    Words count by the weight of the matching ones divided by the weight of all words of the text, so a common word
    counts next to nothing whether or not the others match.
    """

    archive: Archive
    words: _Words
    space: Space
    vector: Vectors

    def __call__(self, request: Request) -> Answer:
        longer = replace(request, top_k=depth(request.top_k))
        by_meaning, by_words = self.archive.index.search(self.space, self.vector, longer), self.words(longer)
        cosines = {match.episode: match.score for match in by_meaning.matches}
        words_only = {match.episode for match in by_words.matches} - cosines.keys()
        stored = read_vectors(self.archive.index, self.space, catalog=self.archive.catalog, episodes=words_only)
        firsts = stored.vectors.take(stored.starts[:-1], axis=0).astype(np.float64)
        cosines |= zip(stored.episodes.tolist(), (firsts @ self.vector).tolist(), strict=True)
        shares = self._shares(by_words, request)
        scores = {
            id_: (cosines.get(id_, 0.0) + WORDS_WEIGHT * shares.get(id_, 0.0)) / (1 + WORDS_WEIGHT)
            for id_ in cosines | shares
        }
        order = sorted(scores, key=lambda id_: (-scores[id_], id_))[: request.top_k]
        matches = tuple(Match(id_, 0, scores[id_]) for id_ in order)
        explained = join_explanations([by_words, by_meaning])
        if explained is not None and by_meaning.explained is not None:
            explained = replace(explained, route=f"words + sentences by {by_meaning.explained.route}")
        scored = by_words.scored + by_meaning.scored
        return Answer(matches, by_meaning.exact, scored, explained, by_meaning.coverage)

    def _shares(self, by_words: Answer, request: Request) -> dict[int, float]:
        """Return each episode's share of the weight of all words of the text, 1 at most."""
        if not by_words.matches:
            return {}
        best, total = self.words.best(request), sum(self.words.weights(request))
        return {match.episode: min(1.0, match.score * best / total) for match in by_words.matches}
