"""Ranks episodes by how near they are and what their neighbours are near to, in one view or the mean of several.

nearness  the higher of: cosine of the whole episode, cosine of its best window if it is longer than the query; each
          calibrated; without a graph, windows count only if the nearest is much nearer by them
graph     what reaches an episode from the nearest over the neighbour graph (graph_score.py)
expanded  without a graph: cosine with the query expanded by its nearest hits, by which a partial query retrieves its
          full episode, and through it similar ones, four fifths of the score; and one fifth the best window
score     that of the graph, or expanded; for nearly equal episodes at least their nearness alone; the nearest of
          those that do not equal the query is the first of these
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.graph.completion import load_completed
from bridge.index.base import Answer, Matches, find_firsts
from bridge.search.ranking.candidates import EpisodeCandidates, sort_keys, subtract_keys, unite_keys
from bridge.search.ranking.graph_score import GraphReach
from bridge.search.ranking.rankers import depth, join_coverage, join_explanations
from bridge.search.ranking.scores import (
    calibrate,
    combine_examples,
    combine_nearness,
    differing,
    expand_query,
    find_agreeing,
    fuse_scores,
    put_first,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bridge.graph.completion import Completion
    from bridge.graph.neighbour_graph import NeighbourGraph
    from bridge.index.base import Ids, Request, VectorIndex
    from bridge.search.ranking.candidates import Keys
    from bridge.search.ranking.query_vector import QueryVector
    from bridge.search.ranking.stored_vectors import StoredVectors

EXPAND: Final = 8
"""Default number of hits by which a query is expanded, as far as they are neighbours of each other."""
OWN_WEIGHT: Final = 0.1
"""Weight of the query itself beside them."""
POWER: Final = 6.0
"""The weight of a hit is this power of its nearness, so that less similar hits hardly count."""

_LENGTH_FACTORS: Final = (1, 4, 16)
"""Of the depth of lists of windows, tried until they have as many episodes as requested."""

_EQUAL_COSINE: Final = 1 - 1e-12
"""Cosine above which two float32 vectors count as equal: their score is then exactly 1."""

_NO_KEYS: Final = np.zeros((0, 2), np.int64)
_FIRST_WINDOW: Final = np.array([1, 0])  # multiplied with a key: the key of the whole episode


@dataclass(frozen=True, eq=False)
class _CalibratedQuery:
    """The query in one Space, and its mean similarity to episodes in general."""

    query: QueryVector
    background: float

    def of(self, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return cosines on the common scale."""
        return calibrate(cosines, self.background)


@dataclass(frozen=True, eq=False)
class _ScoredCandidates:
    """Candidates, their scores [n], and the underlying answers."""

    keys: Keys
    scores: NDArray[np.float64]
    answers: list[Answer]


@dataclass(frozen=True, eq=False)
class Fusion:
    """A ranker over one Space, and that of its windows if there is one; expand: number of hits to expand by.

    graph: by which to rank, in place of expansion, if there is one. are_longer: says which of some episodes are longer
    than the query, which may therefore be a part of them. mutual: expand only by hits that are each other's neighbours.
    completions: what predicts the vectors of episodes that lack lanes.
    """

    index: VectorIndex
    stored: StoredVectors
    main: QueryVector
    windows: QueryVector | None
    expand: int
    graph: NeighbourGraph | None = None
    are_longer: Callable[[Ids], NDArray[np.bool_]] = np.ones_like
    mutual: bool = False
    completions: Sequence[Completion] = ()

    def __call__(self, request: Request) -> Answer:
        """Return the best of the episodes that the lists have; exact if each list is."""
        return _answer(self.scored(request, depth(max(request.top_k, self.expand))), request)

    def scored(self, request: Request, length: int, extra: Keys = _NO_KEYS) -> _ScoredCandidates:
        """Return the scores of the first length matches of each list, and of the extra candidates with vectors."""
        deeper = replace(request, top_k=length)
        main = self._calibrate(self.main)
        windows = None if self.windows is None else self._calibrate(self.windows)
        searches = [main] if windows is None else [main, windows]
        answers = [searched.query.search(self.index, deeper) for searched in searches]
        load_candidates = partial(self._load_candidates, main=main, windows=windows, windows_answer=answers[-1])
        keys = unite_keys([_keys_of(answers[0]), extra, *(_keys_of(answer) * _FIRST_WINDOW for answer in answers[1:])])
        candidates = load_candidates(keys)
        are_parts = self.graph is not None or candidates.are_parts()
        candidates = candidates if are_parts else candidates.by_whole()
        scores = candidates.nearness
        if self.graph is not None and len(candidates.keys):
            reach = GraphReach.of(self.graph, candidates.keys[:, 0], candidates.nearness)
            others = self.stored.passing(reach.others(candidates.keys[:, 0], length), request.where)
            candidates = candidates.join(load_candidates(others[:, None] * _FIRST_WINDOW))
            scores = reach.score(candidates.keys[:, 0], candidates.nearness)
        elif self.expand and len(candidates.keys):
            expanded = self._calibrate(self._expand(candidates))
            answers.append(expanded.query.search(self.index, deeper))
            more = load_candidates(subtract_keys(_keys_of(answers[-1]), keys))
            candidates = candidates.join(more if are_parts else more.by_whole())
            similarity = expanded.of(_snap_equal(expanded.query.cosines(candidates.vectors)))
            scores = fuse_scores(candidates.nearness, similarity, candidates.parts, self.main.weights.windows)
            put_first(scores, candidates.nearness)
        return _ScoredCandidates(candidates.keys, scores, answers)

    def _load_candidates(
        self, keys: Keys, *, main: _CalibratedQuery, windows: _CalibratedQuery | None, windows_answer: Answer
    ) -> EpisodeCandidates:
        """Return the candidates that still have vectors; windows_answer: the best windows from the index.

        If an episode has fewer vectors by now, its last one is used.
        """
        stored = load_completed(self.stored.load, self.main.space, self.completions, keys[:, 0])
        places, present = stored.find(keys[:, 0])
        keys = keys[present]
        vectors = stored.pick(places[present], keys[:, 1])
        whole = main.of(_snap_equal(main.query.cosines(vectors)))
        if windows is None:
            return EpisodeCandidates(keys, vectors, whole, whole, None)
        cosines = self._find_best(windows.query, keys[:, 0], windows_answer)
        has_windows, parts = np.isfinite(cosines), whole.copy()
        parts[has_windows] = windows.of(_snap_equal(cosines[has_windows]))
        shares = np.where(self.are_longer(keys[:, 0]), main.query.weights.windows, 0.0)
        return EpisodeCandidates(keys, vectors, combine_nearness(whole, parts, shares), whole, parts)

    def _find_best(self, query: QueryVector, episodes: Ids, answer: Answer) -> NDArray[np.float64]:
        """Return the cosine [n] of each episode's best window, NaN if it has none; answer: windows from the index.

        An answer that is not exact is ignored, as its windows need not be the best.
        """
        best = np.full(len(episodes), np.nan)
        if answer.exact:
            order = answer.columns.episodes.argsort(kind="stable")  # the first of each episode is its best
            listed = answer.columns.episodes[order]
            places = listed.searchsorted(episodes).clip(max=max(len(listed) - 1, 0))
            is_known = listed[places] == episodes if len(listed) else np.zeros(len(episodes), np.bool_)
            best[is_known] = answer.columns.scores[order[places[is_known]]]
        unknown = np.flatnonzero(np.isnan(best))
        stored = self.stored.load(query.space, episodes[unknown])
        if len(stored.episodes):
            firsts = stored.starts[:-1]
            products = stored.vectors @ query.vector if query.scanned is None else query.cosines(stored.vectors)
            owners = np.repeat(np.arange(len(firsts)), np.diff(stored.starts))
            tops = np.flatnonzero(products == np.maximum.reduceat(products, firsts)[owners])
            cosines = query.cosines(stored.vectors.take(tops[find_firsts(owners[tops])], axis=0))  # exactly
            places, is_known = stored.find(episodes[unknown])
            best[unknown[is_known]] = cosines[places[is_known]]
        return best

    def _expand(self, candidates: EpisodeCandidates) -> QueryVector:
        differs = differing(candidates.nearness)  # the query is in the vector already
        nearness, vectors = candidates.nearness[differs], candidates.vectors[differs]
        seeds = np.argsort(-nearness, kind="stable")[: self.expand]
        if self.mutual:
            seeds = find_agreeing(self.main.weights, vectors, seeds)
        vector = expand_query(self.main.vector, vectors[seeds], nearness[seeds], own=OWN_WEIGHT, power=POWER)
        return replace(self.main, vector=combine_examples(vector[None], self.main.against))

    def predicted(self, episodes: Ids) -> NDArray[np.bool_]:
        """Return which episodes [n] have no vectors in this view, but predicted ones."""
        if not self.completions:
            return np.zeros(len(episodes), np.bool_)
        return ~np.isin(episodes, self.stored.load(self.main.space, episodes).episodes)

    def _calibrate(self, query: QueryVector) -> _CalibratedQuery:
        return _CalibratedQuery(query, self.stored.background(query))


@dataclass(frozen=True, eq=False)
class ViewFusion:
    """A ranker over several views: the mean score of an episode over the views that have vectors of it."""

    views: Sequence[Fusion]

    def __call__(self, request: Request) -> Answer:
        """Return the best of the episodes that the lists of any view have, as Fusion does."""
        least = depth(max(request.top_k, *(view.expand for view in self.views)))
        for length in (factor * least for factor in _LENGTH_FACTORS):
            scored = self._scored(request, length)
            answer = _answer(scored, request)
            if len(answer.matches) >= request.top_k or all(len(part.matches) < length for part in scored.answers):
                break
        return answer

    def _scored(self, request: Request, length: int) -> _ScoredCandidates:
        request = replace(request, distinct=False)  # the best window of one view may not be that of all
        listed = _NO_KEYS
        while True:  # each view scores the candidates of the others, which may add candidates
            parts = [view.scored(request, length, listed) for view in self.views]
            united = unite_keys([listed, *(part.keys for part in parts)])
            if len(united) == len(listed):
                break
            listed = united
        parts = [self._without_copies(view, part, parts) for view, part in zip(self.views, parts, strict=True)]
        parts = [self._by_most_lanes(view, part, parts) for view, part in zip(self.views, parts, strict=True)]
        all_keys, all_scores = np.concatenate([part.keys for part in parts]), [part.scores for part in parts]
        order, firsts = sort_keys(all_keys)
        places = np.flatnonzero(firsts)
        counts = np.diff(np.append(places, len(order)))
        scores = np.add.reduceat(np.concatenate(all_scores)[order], places) / counts if len(order) else np.zeros(0)
        answers = [answer for part in parts for answer in part.answers]
        return _ScoredCandidates(all_keys[order][firsts], scores, answers)

    def _without_copies(
        self, view: Fusion, own: _ScoredCandidates, parts: Sequence[_ScoredCandidates]
    ) -> _ScoredCandidates:
        """Leave out episodes that lack lanes of a view where they equal the query by all that they have."""
        predicted = view.predicted(own.keys[:, 0])
        if not predicted.any():
            return own
        equal = [
            part.keys[part.scores == 1.0, 0]
            for other, part in zip(self.views, parts, strict=True)
            if other.main.space.is_part_of(view.main.space)
        ]
        remains = ~(predicted & np.isin(own.keys[:, 0], np.concatenate([own.keys[:0, 0], *equal])))
        return replace(own, keys=own.keys[remains], scores=own.scores[remains])

    def _by_most_lanes(
        self, view: Fusion, own: _ScoredCandidates, parts: Sequence[_ScoredCandidates]
    ) -> _ScoredCandidates:
        """Leave out the episodes of a view that another compares by these lanes and more."""
        space = view.main.space
        wider = [
            part.keys[:, 0] for other, part in zip(self.views, parts, strict=True) if space.is_part_of(other.main.space)
        ]
        if not wider:
            return own
        alone = ~np.isin(own.keys[:, 0], np.concatenate(wider))
        return replace(own, keys=own.keys[alone], scores=own.scores[alone])


def _keys_of(answer: Answer) -> Keys:
    return np.column_stack([answer.columns.episodes, answer.columns.windows])


def _snap_equal(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosines, exactly 1 for equal vectors."""
    snapped: NDArray[np.float64] = np.maximum(cosines, -1.0)
    snapped[snapped > _EQUAL_COSINE] = 1.0
    return snapped


def _answer(scored: _ScoredCandidates, request: Request) -> Answer:
    scores, answers = scored.scores, scored.answers
    episodes, windows = scored.keys.T
    order = np.lexsort((windows, episodes, -scores))
    if request.distinct:
        order = order[find_firsts(episodes[order])]
    order = order[: request.top_k]
    matches = Matches(episodes[order], windows[order], scores[order])
    exact = all(answer.exact for answer in answers)
    scored_all = sum(answer.scored for answer in answers)
    return Answer(matches, exact, scored_all, join_explanations(answers), join_coverage(answers))
