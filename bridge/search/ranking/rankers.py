"""Rankers: functions from a request to an answer, which can be wrapped in each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from bridge.index.base import Answer, Explanation, Match, Matches, Request
from bridge.search.ranking.scores import reciprocal_ranks

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from bridge.index.base import VectorIndex
    from bridge.search.ranking.query_vector import QueryVector
    from bridge.search.ranking.stored_vectors import StoredVectors
    from embedders.space import Space

Ranker: TypeAlias = Callable[[Request], Answer]

LEAST_DEPTH: Final = 100
"""Least number of matches to take from a list whose best need not be the best overall."""

_EQUAL: Final = 1e-6  # rounding error of values from float32 vectors that are equal


def depth(top_k: int) -> int:
    """Return the number of matches to take from each list for top_k hits."""
    return max(LEAST_DEPTH, 4 * top_k)


def rank_farthest(index: VectorIndex, query: QueryVector) -> Ranker:
    """Rank by cosine, the lowest first, by a search for the negated query."""

    def rank(request: Request) -> Answer:
        answer = index.search(query.space, -query.vector, request)
        columns = answer.columns
        return replace(answer, matches=Matches(columns.episodes, columns.windows, -columns.scores))

    return rank


def fuse_by_rank(rankers: Sequence[Ranker], *, reach: Callable[[int], int] = depth) -> Ranker:
    """Rank whole episodes by the reciprocal ranks that several rankers give them; 1 is first in all.

    reach: returns the number of matches to take from each list for a number of hits.
    """

    def rank_together(request: Request) -> Answer:
        longer = replace(request, top_k=reach(request.top_k))
        answers = [rank(longer) for rank in rankers]
        scores = reciprocal_ranks([[match.episode for match in answer.matches] for answer in answers])
        order = sorted(scores, key=lambda id_: (-scores[id_], id_))[: request.top_k]
        matches = tuple(Match(id_, 0, scores[id_]) for id_ in order)
        scored = sum(answer.scored for answer in answers)
        exact = all(answer.exact for answer in answers)
        return Answer(matches, exact, scored, join_explanations(answers), join_coverage(answers))

    return rankers[0] if len(rankers) == 1 else rank_together


def limit_score(rank: Ranker, score: float) -> Ranker:
    """Leave out matches below a score."""

    def cut(request: Request) -> Answer:
        answer = rank(request)
        return replace(answer, matches=tuple(match for match in answer.matches if match.score >= score))

    return cut


def diversify(
    rank: Ranker,
    stored: StoredVectors,
    spaces: Sequence[Space],
    diversity: float,
    find_present: Callable[[Sequence[Match]], Collection[Match]] = lambda matches: matches,
) -> Ranker:
    """Rerank the first hits of a ranker so that they differ from each other.

    spaces: the difference of hits is measured by their mean cosine in these. find_present: returns the matches that can
    be hits; the others come last, and are not compared with. Exact if no match that is ranked later could have been
    chosen, even if it were opposite to all hits.
    """

    def choose(request: Request) -> Answer:
        list_length = depth(request.top_k)
        answer = rank(replace(request, top_k=list_length))
        present = find_present(answer.matches)
        usable = [match for match in answer.matches if match in present]
        if not usable:
            return answer
        rows = np.concatenate([read_rows(stored, space, usable) for space in spaces], axis=1) / np.sqrt(len(spaces))
        scores = np.array([match.score for match in usable])
        chosen, values = select_diverse(scores, rows, request.top_k, diversity=diversity)
        opposite = (1 - diversity) * answer.matches[-1].score + diversity  # the value of a later match, at most
        is_complete = len(answer.matches) < list_length
        exact = answer.exact and (is_complete or min(values[1:], default=np.inf) > opposite)
        absent = [match for match in answer.matches if match not in present]
        return replace(answer, matches=(*(usable[number] for number in chosen), *absent), exact=exact)

    return choose


def select_diverse(
    scores: NDArray[np.float64], vectors: NDArray[np.floating], count: int, *, diversity: float
) -> tuple[list[int], list[float]]:
    """Return the indices of `count` candidates: first the best score, then always the candidate with the highest

        (1 - diversity) * score - diversity * (highest cosine with those chosen).

    These values are returned too; that of the first is its score. scores [N], vectors [N, E] of length 1. Of equal
    values the higher score wins (if the query is itself the first, and diversity 0.5, all others are equal), then the
    lower index; with diversity 0 this is the order of the scores.
    """  # noqa: D400, D415  (the formula ends the sentence)
    rows = vectors.astype(np.float64)
    similarity = np.full(len(scores), -np.inf)
    is_open = np.ones(len(scores), np.bool_)
    chosen: list[int] = []
    values: list[float] = []
    while len(chosen) < min(count, len(scores)):
        penalty = diversity * similarity if chosen else 0.0
        value = np.where(is_open, (1 - diversity) * scores - penalty if chosen else scores, -np.inf)
        equal = np.flatnonzero(value >= value.max() - _EQUAL)
        best = int(equal[np.argmax(scores[equal])])
        chosen.append(best)
        values.append(float(value[best]))
        is_open[best] = False
        np.maximum(similarity, rows @ rows[best], out=similarity)
    return chosen, values


def read_rows(stored: StoredVectors, space: Space, matches: Sequence[Match]) -> NDArray[np.float32]:
    """Return the vectors [n, E] of matches in a Space, zeros for episodes without vectors in it."""
    columns = Matches.of(matches)
    own = stored.load(space, columns.episodes.tolist())
    places, present = own.find(columns.episodes)
    rows = np.zeros((len(columns), space.dim), np.float32)
    rows[present] = own.pick(places[present], columns.windows[present])
    return rows


def join_coverage(answers: Sequence[Answer]) -> str:
    """Return which shards answered, in the worst of the answers: one that names faults is longer."""
    return max((answer.coverage for answer in answers), key=len, default="")


def join_explanations(answers: Sequence[Answer]) -> Explanation | None:
    """Return the explanations of several answers, joined; None if there are none."""
    parts = [answer.explained for answer in answers if answer.explained is not None]
    if not parts:
        return None
    sums = {name: sum(getattr(part, name) for part in parts) for name in ("scored", "lists", "all_lists", "tail")}
    milliseconds: dict[str, float] = {}
    for part in parts:
        for name, value in part.milliseconds.items():
            milliseconds[name] = milliseconds.get(name, 0.0) + value
    return Explanation(
        " + ".join(part.route for part in parts),
        sum(part.allowed for part in parts),
        **sums,
        milliseconds=milliseconds,
    )
