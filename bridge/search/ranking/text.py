"""Ranks episodes by text: by the words of tasks and notes, and by meaning where a sentence encoder is given."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Answer, Explanation, Match
from bridge.index.stored_rows import read_vectors
from bridge.search.ranking.rankers import depth, join_explanations
from embedders.text.base import encode_by, text_space
from wshard.errors import SpaceMismatchError

if TYPE_CHECKING:
    from bridge.archive import Archive
    from bridge.index.base import Request, Vectors
    from bridge.search.ranking.rankers import Ranker
    from embedders.space import Space
    from embedders.text.base import TextEncoder


WORDS_WEIGHT: Final = 0.1
"""What words count beside meaning: they decide among texts that mean about the same."""


def rank_by_text(archive: Archive, text: str, encoder: TextEncoder | None) -> Ranker:
    """Return the ranker of a text: by its words, and where there is an encoder by its meaning first.

    Raises SpaceMismatchError where the archive has no vectors of the encoder, EmbedderError for what the encoder does.
    """
    words = _Words(archive, text)
    if encoder is None:
        return words
    space = text_space(encoder)
    if not any(row.fingerprint == space.fingerprint for row in archive.catalog.vectors.spaces("active")):
        raise SpaceMismatchError(
            f"the archive has no vectors of the text encoder {encoder.name!r} {dict(space.parameters)}: ingest with "
            f"it first (`wshard ingest ... --sentences FOLDER`), or search by words only"
        )
    return _Meaning(archive, words, space, encode_by(encoder, [text])[0])


@dataclass(frozen=True, eq=False)
class _Words:
    """Ranks by the words of task and notes (BM25); the best episode has score 1, the others their share of it."""

    archive: Archive
    text: str

    def __call__(self, request: Request) -> Answer:
        begun = time.perf_counter()
        found = self.archive.catalog.query.relevant(self.text, request.where, limit=request.top_k)
        best = found[0][1] if found else 1.0
        matches = [Match(id_, 0, score / best) for id_, score in found]
        spent = {"words": (time.perf_counter() - begun) * 1e3}
        explained = Explanation("words", 0, 0, 0, 0, 0, spent) if request.explain else None  # it compares no vectors
        return Answer(tuple(matches), exact=True, scored=len(found), explained=explained)

    def best(self, request: Request) -> float:
        """Return the BM25 of the best episode."""
        found = self.archive.catalog.query.relevant(self.text, request.where, limit=1)
        return found[0][1] if found else 0.0

    def weights(self, request: Request) -> list[float]:
        """Return what each word of the text weighs."""
        return [*self.archive.catalog.query.word_weights(self.text, request.where).values()]


@dataclass(frozen=True, eq=False)
class _Meaning:
    """Ranks by the cosine of what is said of the task with the text asked for, and a little by the words of both.

    Words count by the share that an episode has of what all words of the text weigh: a common one weighs next to
    nothing, whether or not the others are found.
    """

    archive: Archive
    words: _Words
    space: Space
    vector: Vectors

    def __call__(self, request: Request) -> Answer:
        deeper = replace(request, top_k=depth(request.top_k))
        meant, said = self.archive.index.search(self.space, self.vector, deeper), self.words(deeper)
        cosines = {match.episode: match.score for match in meant.matches}
        others = {match.episode for match in said.matches} - cosines.keys()
        found = read_vectors(self.archive.index, self.space, catalog=self.archive.catalog, episodes=others)
        firsts = found.vectors.take(found.starts[:-1], axis=0).astype(np.float64)
        cosines |= zip(found.episodes.tolist(), (firsts @ self.vector).tolist(), strict=True)
        shares = self._shares(said, request)
        scores = {id_: _join(cosines.get(id_, 0.0), shares.get(id_, 0.0)) for id_ in cosines | shares}
        order = sorted(scores, key=lambda id_: (-scores[id_], id_))[: request.top_k]
        matches = tuple(Match(id_, 0, scores[id_]) for id_ in order)
        everything = len(meant.matches) < deeper.top_k
        beyond = -1.0 if everything else _join(meant.matches[-1].score, min(shares.values(), default=0.0))
        proven = everything or (len(said.matches) < deeper.top_k and matches[-1].score > beyond)
        explained = join_explanations([said, meant])
        if explained is not None and meant.explained is not None:
            explained = replace(explained, route=f"words + sentences by {meant.explained.route}")
        return Answer(matches, meant.exact and proven, said.scored + meant.scored, explained)

    def _shares(self, said: Answer, request: Request) -> dict[int, float]:
        """Return what each episode's words have of what all words of the text weigh, 1 at most."""
        if not said.matches:
            return {}
        best, whole = self.words.best(request), sum(self.words.weights(request))
        return {match.episode: min(1.0, match.score * best / whole) for match in said.matches}


def _join(cosine: float, share: float) -> float:
    return (cosine + WORDS_WEIGHT * share) / (1 + WORDS_WEIGHT)
