"""Ranks episodes as a whole, by their best window and by the expanded query, in one view or the mean of several.

near    the better of: cosine of the whole, cosine of the best window; each calibrated
grown   cosine with the query expanded by its nearest hits: a partial query retrieves its full episode, and through
        it similar ones
score   grown, and a fifth the best window; never below what near alone says of almost equal ones
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Answer, Match, find_firsts
from bridge.search.ranking.rankers import depth, join_explanations
from bridge.search.ranking.scores import calibrate, combine_examples, combine_nearness, expand_query, fuse_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

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
    """Candidates by episode and window, their vectors [E], how near they are [N], and their best windows if any."""

    keys: list[_Key]
    vectors: list[Vectors]
    near: NDArray[np.float64]
    parts: NDArray[np.float64] | None

    def join(self, more: _Seen) -> _Seen:
        """Return both, one after the other."""
        parts = None if self.parts is None or more.parts is None else np.concatenate([self.parts, more.parts])
        near = np.concatenate([self.near, more.near])
        return _Seen(self.keys + more.keys, self.vectors + more.vectors, near, parts)


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
        look = partial(self._look, main=main, windows=windows, best=_best_windows(answers[1:]))
        keys = {(match.episode, match.window) for match in answers[0].matches} | {*also}
        keys |= {(match.episode, 0) for answer in answers[1:] for match in answer.matches}
        seen = look(keys)
        if not seen.keys:
            return _Scored([], np.zeros(0), answers, _proof(answers, deep, float("-inf")))
        scores = seen.near
        share = self.main.weights.windows
        tails = np.array([[_tail(answer, deep, one)] for answer, one in zip(answers, scaled, strict=True)])
        beyond = combine_nearness(tails[0], tails.max(axis=0), share)
        if self.expand:
            grown = self._scaled(self._expand(seen))
            answers.append(grown.query.search(self.index, deeper))
            seen = seen.join(look({(match.episode, match.window) for match in answers[-1].matches} - keys))
            scores = fuse_scores(seen.near, grown.of(_snap(grown.query.cosines(seen.vectors))), seen.parts, share)
            part = None if windows is None else tails.max(axis=0)
            beyond = fuse_scores(beyond, np.array([_tail(answers[-1], deep, grown)]), part, share)
        return _Scored(seen.keys, scores, answers, _proof(answers, deep, float(beyond[0])))

    def _look(
        self, keys: Iterable[_Key], *, main: _Scaled, windows: _Scaled | None, best: Mapping[int, float]
    ) -> _Seen:
        """Return those of the candidates that still have vectors; best: the cosines of best windows that are known.

        The vector of an episode that has fewer by now is its last one.
        """
        found = self.stored.load(self.main.space, {episode for episode, _ in keys})
        some = sorted(key for key in keys if key[0] in found)
        vectors = [found[episode][min(window, len(found[episode]) - 1)] for episode, window in some]
        whole = main.of(_snap(main.query.cosines(vectors)))
        if windows is None:
            return _Seen(some, vectors, whole, None)
        cosines = {**best, **self._read_best(windows.query, {episode for episode, _ in some} - best.keys())}
        parts = whole.copy()
        if places := [place for place, (episode, _) in enumerate(some) if episode in cosines]:
            parts[places] = windows.of(_snap(np.array([cosines[some[place][0]] for place in places])))
        return _Seen(some, vectors, combine_nearness(whole, parts, main.query.weights.windows), parts)

    def _read_best(self, query: QueryVector, episodes: Collection[int]) -> dict[int, float]:
        """Return the cosines of the best windows of those of the episodes that have any."""
        found = self.stored.load(query.space, episodes)
        if not found:
            return {}
        best = [rows[int((rows @ query.vector).argmax())] for rows in found.values()]
        return dict(zip(found, query.cosines(best).tolist(), strict=True))  # exactly

    def _expand(self, seen: _Seen) -> QueryVector:
        near = seen.near
        seeds = np.lexsort((np.arange(len(near)), -near))[: self.expand]
        hits = np.stack([seen.vectors[seed] for seed in seeds.tolist()])
        vector = expand_query(self.main.vector, hits, near[seeds], own=OWN_WEIGHT, power=POWER)
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


def _best_windows(answers: Sequence[Answer]) -> dict[int, float]:
    """Return the cosine of the best window of each episode in the answers, which come best first and are proven."""
    return {match.episode: match.score for answer in answers if answer.exact for match in reversed(answer.matches)}


def _snap(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cosines where those of equal vectors are 1."""
    snapped: NDArray[np.float64] = np.maximum(cosines, -1.0)
    snapped[snapped > _SAME] = 1.0
    return snapped


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
    episodes, windows = np.array(keys, np.int64).reshape(-1, 2).T
    order = np.lexsort((windows, episodes, -scores))
    if request.distinct:
        order = order[find_firsts(episodes[order])]
    chosen = [(*keys[number], float(scores[number])) for number in order[: request.top_k].tolist()]
    matches = tuple(Match(episode, window, score) for episode, window, score in chosen)
    enough = len(matches) == request.top_k and matches[-1].score > scored.proof
    exact = scored.proof == float("-inf") or enough
    return Answer(matches, exact, sum(answer.scored for answer in answers), join_explanations(answers))
