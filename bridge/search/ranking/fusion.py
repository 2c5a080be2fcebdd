"""Ranks episodes as a whole, by their best window and by the expanded query, in one view or the mean of several.

near    the better of: cosine of the whole, cosine of the best window; each calibrated
grown   cosine with the query expanded by its nearest hits: a partial query retrieves its full episode, and through
        it similar ones
score   grown, and a fifth the best window; never below what near alone says of almost equal ones
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Answer, Match
from bridge.search.ranking.rankers import depth, join_explanations
from bridge.search.ranking.scores import calibrate, combine_examples, combine_nearness, expand_query, fuse_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.index.base import Request, VectorIndex, Vectors
    from bridge.search.ranking.query_vector import QueryVector
    from bridge.search.ranking.stored_vectors import StoredVectors

EXPAND: Final = 8
"""Hits that a query is expanded by, where nothing else is asked for."""
OWN_WEIGHT: Final = 0.1
"""What the query itself counts beside them."""
POWER: Final = 6.0
"""A hit counts this power of its nearness: where only two or three are like the query, the others hardly count."""
_DEEPER: Final = (1, 4, 16)  # times the depth, while the result is not proven

_SAME: Final = 1 - 1e-12
"""Cosine from which two float32 vectors may be the same: what is equal has a score of 1, not of almost 1."""

_Key = tuple[int, int]  # episode and window


@dataclass(frozen=True, eq=False)
class _Seen:
    """Candidates by episode and window, and the vectors [n, E] of their episodes in either Space."""

    keys: list[_Key]
    whole: dict[int, Vectors]
    windows: dict[int, Vectors]

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """The candidates' own vectors [N, E], at least one; the last of an episode that has fewer by now."""
        return np.stack([found[min(window, len(found) - 1)] for found, window in self._pairs()])

    def _pairs(self) -> Iterator[tuple[Vectors, int]]:
        return ((self.whole[episode], window) for episode, window in self.keys)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """What one Space is searched for, and how alike that is to episodes in general."""

    query: QueryVector
    level: float

    def of(self, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return cosines on the common scale."""
        return calibrate(cosines, self.level)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Candidates and their scores [N], the answers that they are from, and what hits must be above to be proven."""

    keys: list[_Key]
    scores: NDArray[np.float64]
    answers: list[Answer]
    proof: float


@dataclass(frozen=True, eq=False)
class Fusion:
    """A ranker over one Space, and its windows where they are there too; expand: by how many hits, 0 = by none."""

    index: VectorIndex
    stored: StoredVectors
    main: QueryVector
    windows: QueryVector | None
    expand: int

    def __call__(self, request: Request) -> Answer:
        """Return the best of all episodes that pass: exact where it is proven that none was overlooked."""
        return _deepen(request, self.expand, lambda deep: self.scored(request, deep))

    def scored(self, request: Request, deep: int, also: Iterable[_Key] = ()) -> _Scored:
        """Return the scores of the first `deep` of each list, and of others that pass as far as they have vectors."""
        deeper = replace(request, top_k=deep)
        main = self._scaled(self.main)
        windows = None if self.windows is None else self._scaled(self.windows)
        scaled = [main] if windows is None else [main, windows]
        answers = [one.query.search(self.index, deeper) for one in scaled]
        keys = {(match.episode, match.window) for match in answers[0].matches} | {*also}
        keys |= {(match.episode, 0) for answer in answers[1:] for match in answer.matches}
        seen = self._look(keys, _Seen([], {}, {}))
        if not seen.keys:
            return _Scored([], np.zeros(0), answers, _proof(answers, deep, float("-inf")))
        near, parts = _near(seen, main, windows)
        scores = near
        share = self.main.weights.windows
        tails = np.array([[_tail(answer, deep, one)] for answer, one in zip(answers, scaled, strict=True)])
        beyond = combine_nearness(tails[0], tails.max(axis=0), share)
        if self.expand:
            grown = self._scaled(self._expand(seen, near))
            answers.append(grown.query.search(self.index, deeper))
            more = self._look(keys | {(match.episode, match.window) for match in answers[-1].matches}, seen)
            if more.keys != seen.keys:
                seen = more
                near, parts = _near(seen, main, windows)
            scores = fuse_scores(near, grown.of(_cosines(seen.vectors, grown.query)), parts, share)
            part = None if windows is None else tails.max(axis=0)
            beyond = fuse_scores(beyond, np.array([_tail(answers[-1], deep, grown)]), part, share)
        return _Scored(seen.keys, scores, answers, _proof(answers, deep, float(beyond[0])))

    def _look(self, keys: Iterable[_Key], before: _Seen) -> _Seen:
        """Return candidates that still have vectors, by episode and window; what was read before is not read again."""
        ordered = sorted(keys)
        new = {episode for episode, _ in ordered} - before.whole.keys()
        whole = before.whole | self.stored.load(self.main.space, new)
        parts = {} if self.windows is None else self.stored.load(self.windows.space, new)
        return _Seen([key for key in ordered if key[0] in whole], whole, before.windows | parts)

    def _expand(self, seen: _Seen, near: NDArray[np.float64]) -> QueryVector:
        seeds = np.lexsort((np.arange(len(near)), -near))[: self.expand]
        vector = expand_query(self.main.vector, seen.vectors[seeds], near[seeds], own=OWN_WEIGHT, power=POWER)
        return replace(self.main, vector=combine_examples(vector[None], self.main.against))

    def _scaled(self, query: QueryVector) -> _Scaled:
        return _Scaled(query, self.stored.background(query))


@dataclass(frozen=True, eq=False)
class ViewFusion:
    """A ranker over several views: the mean of the scores of an episode in those that have vectors of it."""

    views: Sequence[Fusion]

    def __call__(self, request: Request) -> Answer:
        """Return the best of all that pass, as Fusion does."""
        return _deepen(request, max(view.expand for view in self.views), lambda deep: self._scored(request, deep))

    def _scored(self, request: Request, deep: int) -> _Scored:
        request = replace(request, distinct=False)  # the best window of one view may not be that of all
        listed: set[_Key] = set()
        while True:  # what one view finds is scored by the others, where it may lead to more
            parts = [view.scored(request, deep, listed) for view in self.views]
            found = listed.union(*(part.keys for part in parts))
            if found == listed:
                break
            listed = found
        of_key: dict[_Key, list[float]] = {}
        for part in parts:
            for key, score in zip(part.keys, part.scores.tolist(), strict=True):
                of_key.setdefault(key, []).append(score)
        keys = sorted(of_key)
        scores = np.array([np.mean(of_key[key]) for key in keys])
        answers = [answer for part in parts for answer in part.answers]
        return _Scored(keys, scores, answers, max(part.proof for part in parts))


def _deepen(request: Request, expand: int, attempt: Callable[[int], _Scored]) -> Answer:
    """Return the answer, of longer and longer lists while it is not proven and longer ones could prove more."""
    for times in _DEEPER:
        scored = attempt(times * depth(max(request.top_k, expand)))
        answer = _answer(scored, request)
        if answer.exact or not scored.keys or not all(found.exact for found in scored.answers):
            break
    return answer


def _near(
    seen: _Seen, main: _Scaled, windows: _Scaled | None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return nearness, and the calibrated similarity of the best window; where there is none, of the whole."""
    whole = main.of(_cosines(seen.vectors, main.query))
    if windows is None:
        return whole, None
    parts = whole.copy()
    places = [place for place, (episode, _) in enumerate(seen.keys) if episode in seen.windows]
    if places:
        vectors = [seen.windows[seen.keys[place][0]] for place in places]
        query = windows.query.vector
        best = np.stack([found[int((found @ query).argmax())] for found in vectors])  # then exactly, of one each
        parts[places] = windows.of(_cosines(best, windows.query))
    return combine_nearness(whole, parts, main.query.weights.windows), parts


def _cosines(vectors: NDArray[np.float32], query: QueryVector) -> NDArray[np.float64]:
    cosines: NDArray[np.float64] = np.maximum(query.cosines(vectors), -1.0)
    cosines[cosines > _SAME] = 1.0
    return cosines


def _tail(answer: Answer, deep: int, scaled: _Scaled) -> float:
    """Return what no episode that is not in the answer is above, on the common scale."""
    if len(answer.matches) < deep:
        return float("-inf")
    return float(scaled.of(np.array([answer.matches[-1].score]))[0])


def _proof(answers: Sequence[Answer], deep: int, beyond: float) -> float:
    """Return the score that hits must be above to be proven the best; infinite where an answer is not exact itself."""
    if not all(answer.exact for answer in answers):
        return float("inf")
    everything = len(answers[0].matches) < deep  # all that pass have been seen
    return float("-inf") if everything else beyond


def _answer(scored: _Scored, request: Request) -> Answer:
    keys, scores, answers = scored.keys, scored.scores, scored.answers
    order = np.lexsort((np.arange(len(keys)), -scores))
    if request.distinct and keys:
        _, first = np.unique(np.array([keys[number][0] for number in order]), return_index=True)
        order = order[np.sort(first)]
    chosen = [(*keys[number], float(scores[number])) for number in order[: request.top_k].tolist()]
    matches = tuple(Match(episode, window, score) for episode, window, score in chosen)
    enough = len(matches) == request.top_k and matches[-1].score > scored.proof
    exact = scored.proof == float("-inf") or enough
    return Answer(matches, exact, sum(answer.scored for answer in answers), join_explanations(answers))
