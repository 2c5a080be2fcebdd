"""Ranks episodes by text: by the words of tasks and notes, and by meaning where a sentence encoder is given."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bridge.index.base import Answer, Explanation, Match
from embedders.text.base import encode_by, text_space
from wshard.errors import SpaceMismatchError

if TYPE_CHECKING:
    from bridge.archive import Archive
    from bridge.index.base import Request, Vectors
    from bridge.search.ranking.rankers import Ranker
    from embedders.space import Space
    from embedders.text.base import TextEncoder


def rank_by_text(archive: Archive, text: str, encoder: TextEncoder | None) -> list[Ranker]:
    """Return the rankers of a text, to be fused: by its words, and by its meaning.

    Raises SpaceMismatchError where the archive has no vectors of the encoder, EmbedderError for what the encoder does.
    """
    words = _Words(archive, text)
    if encoder is None:
        return [words]
    space = text_space(encoder)
    if not any(row.fingerprint == space.fingerprint for row in archive.catalog.vectors.spaces("active")):
        raise SpaceMismatchError(
            f"the archive holds no vectors of the text encoder {encoder.name!r} {dict(space.parameters)}: ingest with "
            f"it first (`wshard ingest ... --sentences FOLDER`), or search by words alone"
        )
    return [words, _Meaning(archive, space, encode_by(encoder, [text])[0])]


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


@dataclass(frozen=True, eq=False)
class _Meaning:
    """Ranks by the cosine of what is said of the task with the text asked for, as vectors [E] of one Space."""

    archive: Archive
    space: Space
    vector: Vectors

    def __call__(self, request: Request) -> Answer:
        answer = self.archive.index.search(self.space, self.vector, request)
        own = answer.explained
        return replace(answer, explained=own and replace(own, route=f"sentences by {own.route}"))
