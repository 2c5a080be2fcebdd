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
from numpy.typing import NDArray

from bridge.index.base import Answer, Matches, find_firsts
from bridge.search.ranking.rankers import depth, join_explanations
from bridge.search.ranking.scores import calibrate, combine_examples, combine_nearness, expand_query, fuse_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.index.base import Ids, Request, VectorIndex, Vectors
    from bridge.search.ranking.query_vector import QueryVector
    from bridge.search.ranking.stored_vectors import StoredVectors

EXPAND: Final = 8
"""Hits that a query is expanded by, by default."""
OWN_WEIGHT: Final = 0.1
"""What the query itself counts beside them."""
POWER: Final = 6.0
"""A hit counts this power of its nearness: where only two or three are like the query, the others hardly count."""
_DEEPER: Final = (1, 4, 16)  # times the depth, while the result is not proven

_SAME: Final = 1 - 1e-12
"""Cosine from which two float32 vectors may be the same: what is equal has a score of 1, not of almost 1."""

_Keys = NDArray[np.int64]
"""Episodes and windows [n, 2], ascending, each once."""


_NOBODY: Final = np.zeros((0, 2), np.int64)
_FIRST_WINDOW: Final = np.array([1, 0])  # times a key: that of the episode as a whole


@dataclass(frozen=True, eq=False)
class _Seen:
    """Candidates, their vectors [n, E], how near they are [n], and their best windows if any."""

    keys: _Keys
    vectors: Vectors
    near: NDArray[np.float64]
    parts: NDArray[np.float64] | None

    def join(self, more: _Seen) -> _Seen:
        """Return both, one after the other."""
        parts = None if self.parts is None or more.parts is None else np.concatenate([self.parts, more.parts])
        keys, vectors = np.concatenate([self.keys, more.keys]), np.concatenate([self.vectors, more.vectors])
        return _Seen(keys, vectors, np.concatenate([self.near, more.near]), parts)


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
    """Candidates and their scores [n], the answers that they are from, and what hits must be above to be proven."""

    keys: _Keys
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

    def scored(self, request: Request, deep: int, also: _Keys = _NOBODY) -> _Scored:
        """Return the scores of the first `deep` of each list, and of others that pass as far as they have vectors."""
        deeper = replace(request, top_k=deep)
        main = self._scaled(self.main)
        windows = None if self.windows is None else self._scaled(self.windows)
        scaled = [main] if windows is None else [main, windows]
        answers = [one.query.search(self.index, deeper) for one in scaled]
        look = partial(self._look, main=main, windows=windows, known=answers[-1])
        keys = _unite([_keys_of(answers[0]), also, *(_keys_of(answer) * _FIRST_WINDOW for answer in answers[1:])])
        seen = look(keys)
        if not len(seen.keys):
            return _Scored(seen.keys, np.zeros(0), answers, _proof(answers, deep, float("-inf")))
        scores = seen.near
        share = self.main.weights.windows
        tails = np.array([[_tail(answer, deep, one)] for answer, one in zip(answers, scaled, strict=True)])
        beyond = combine_nearness(tails[0], tails.max(axis=0), share)
        if self.expand:
            grown = self._scaled(self._expand(seen))
            answers.append(grown.query.search(self.index, deeper))
            seen = seen.join(look(_leave_out(_keys_of(answers[-1]), keys)))
            scores = fuse_scores(seen.near, grown.of(_snap(grown.query.cosines(seen.vectors))), seen.parts, share)
            part = None if windows is None else tails.max(axis=0)
            beyond = fuse_scores(beyond, np.array([_tail(answers[-1], deep, grown)]), part, share)
        return _Scored(seen.keys, scores, answers, _proof(answers, deep, float(beyond[0])))

    def _look(self, keys: _Keys, *, main: _Scaled, windows: _Scaled | None, known: Answer) -> _Seen:
        """Return those of the candidates that still have vectors; known: the best windows that were found.

        The vector of an episode that has fewer by now is its last one.
        """
        found = self.stored.load(self.main.space, keys[:, 0].tolist())
        places, there = found.find(keys[:, 0])
        keys = keys[there]
        vectors = found.pick(places[there], keys[:, 1])
        whole = main.of(_snap(main.query.cosines(vectors)))
        if windows is None:
            return _Seen(keys, vectors, whole, None)
        cosines = self._find_best(windows.query, keys[:, 0], known)
        some, parts = np.isfinite(cosines), whole.copy()
        parts[some] = windows.of(_snap(cosines[some]))
        return _Seen(keys, vectors, combine_nearness(whole, parts, main.query.weights.windows), parts)

    def _find_best(self, query: QueryVector, episodes: Ids, known: Answer) -> NDArray[np.float64]:
        """Return the cosine [n] of each episode's best window, NaN where it has none; known: an answer that has some.

        An answer that is not exact may have others than the best.
        """
        best = np.full(len(episodes), np.nan)
        if known.exact:
            order = known.columns.episodes.argsort(kind="stable")  # the best of an episode comes first
            listed = known.columns.episodes[order]
            places = listed.searchsorted(episodes).clip(max=max(len(listed) - 1, 0))
            some = listed[places] == episodes if len(listed) else np.zeros(len(episodes), np.bool_)
            best[some] = known.columns.scores[order[places[some]]]
        others = np.flatnonzero(np.isnan(best))
        found = self.stored.load(query.space, episodes[others].tolist())
        if len(found.episodes):
            products, firsts = found.vectors @ query.vector, found.starts[:-1]
            owners = np.repeat(np.arange(len(firsts)), np.diff(found.starts))
            tops = np.flatnonzero(products == np.maximum.reduceat(products, firsts)[owners])
            cosines = query.cosines(found.vectors.take(tops[find_firsts(owners[tops])], axis=0))  # exactly
            places, some = found.find(episodes[others])
            best[others[some]] = cosines[places[some]]
        return best

    def _expand(self, seen: _Seen) -> QueryVector:
        near = seen.near
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
        listed = _NOBODY
        while True:  # what one view finds is scored by the others, where it may lead to more
            parts = [view.scored(request, deep, listed) for view in self.views]
            found = _unite([listed, *(part.keys for part in parts)])
            if len(found) == len(listed):
                break
            listed = found
        all_keys, all_scores = np.concatenate([part.keys for part in parts]), [part.scores for part in parts]
        order, firsts = _sort(all_keys)
        places = np.flatnonzero(firsts)
        counts = np.diff(np.append(places, len(order)))
        scores = np.add.reduceat(np.concatenate(all_scores)[order], places) / counts if len(order) else np.zeros(0)
        answers = [answer for part in parts for answer in part.answers]
        return _Scored(all_keys[order][firsts], scores, answers, max(part.proof for part in parts))


def _deepen(request: Request, expand: int, attempt: Callable[[int], _Scored]) -> Answer:
    """Return the answer, of longer and longer lists while it is not proven and longer ones could prove more."""
    for times in _DEEPER:
        scored = attempt(times * depth(max(request.top_k, expand)))
        answer = _answer(scored, request)
        if answer.exact or not len(scored.keys) or not all(found.exact for found in scored.answers):
            break
    return answer


def _keys_of(answer: Answer) -> _Keys:
    return np.column_stack([answer.columns.episodes, answer.columns.windows])


def _sort(keys: _Keys) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the order of keys, and which of them, in this order, differ from the one before."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    new = np.ones(len(order), np.bool_)
    new[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    return order, new


def _unite(lists: Sequence[_Keys]) -> _Keys:
    keys = np.concatenate(lists)
    order, new = _sort(keys)
    return keys[order[new]]


def _leave_out(keys: _Keys, others: _Keys) -> _Keys:
    """Return the keys, without those that are among the others, which are sorted."""
    order, new = _sort(np.concatenate([others, keys]))
    own = order[new]
    return keys[own[own >= len(others)] - len(others)]


def _snap(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cosines where those of equal vectors are 1."""
    snapped: NDArray[np.float64] = np.maximum(cosines, -1.0)
    snapped[snapped > _SAME] = 1.0
    return snapped


def _tail(answer: Answer, deep: int, scaled: _Scaled) -> float:
    """Return what no episode that is not in the answer is above, on the common scale."""
    if len(answer.matches) < deep:
        return float("-inf")
    return float(scaled.of(answer.columns.scores[-1:])[0])


def _proof(answers: Sequence[Answer], deep: int, beyond: float) -> float:
    """Return the score that hits must be above to be proven the best; infinite where an answer is not exact itself."""
    if not all(answer.exact for answer in answers):
        return float("inf")
    everything = len(answers[0].matches) < deep  # all that pass have been seen
    return float("-inf") if everything else beyond


def _answer(scored: _Scored, request: Request) -> Answer:
    scores, answers = scored.scores, scored.answers
    episodes, windows = scored.keys.T
    order = np.lexsort((windows, episodes, -scores))
    if request.distinct:
        order = order[find_firsts(episodes[order])]
    order = order[: request.top_k]
    enough = len(order) == request.top_k and scores[order[-1]] > scored.proof
    exact = scored.proof == float("-inf") or bool(enough)
    matches = Matches(episodes[order], windows[order], scores[order])
    return Answer(matches, exact, sum(answer.scored for answer in answers), join_explanations(answers))
