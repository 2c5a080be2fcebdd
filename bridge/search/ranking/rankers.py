"""Rankers: functions from a request to an answer, which can be wrapped in each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from bridge.index.base import Answer, Explanation, Match, Matches, Request
from bridge.search.ranking.diversity import select_diverse
from bridge.search.ranking.scores import reciprocal_rank, reciprocal_ranks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.index.base import VectorIndex
    from bridge.search.ranking.query_vector import QueryVector
    from bridge.search.ranking.stored_vectors import StoredVectors
    from embedders.space import Space

Ranker: TypeAlias = Callable[[Request], Answer]

LEAST_DEPTH: Final = 100
"""Hits that are looked at where the first ones of one list may not be the first ones of all."""


def depth(top_k: int) -> int:
    """Return how far to look for so many hits."""
    return max(LEAST_DEPTH, 4 * top_k)


def rank_farthest(index: VectorIndex, query: QueryVector) -> Ranker:
    """Rank by cosine, the lowest first: what is nearest to the opposite of the query."""

    def rank(request: Request) -> Answer:
        answer = index.search(query.space, -query.vector, request)
        found = answer.columns
        return replace(answer, matches=Matches(found.episodes, found.windows, -found.scores))

    return rank


def fuse_by_rank(rankers: Sequence[Ranker], *, reach: Callable[[int], int] = depth) -> Ranker:
    """Rank whole episodes by the reciprocal ranks that several rankers give them; 1 is first in all.

    reach: how far to look in their lists for so many hits.
    """

    def together(request: Request) -> Answer:
        deeper = replace(request, top_k=reach(request.top_k))
        answers = [rank(deeper) for rank in rankers]
        scores = reciprocal_ranks([[match.episode for match in answer.matches] for answer in answers])
        order = sorted(scores, key=lambda id_: (-scores[id_], id_))[: request.top_k]
        matches = tuple(Match(id_, 0, scores[id_]) for id_ in order)
        scored = sum(answer.scored for answer in answers)
        exact = all(answer.exact for answer in answers) and _certain(answers, deeper.top_k, scores, order)
        return Answer(matches, exact, scored, join_explanations(answers))

    return rankers[0] if len(rankers) == 1 else together


def _certain(answers: Sequence[Answer], deep: int, scores: Mapping[int, float], order: Sequence[int]) -> bool:
    """Say whether the hits are the best, whatever lies beyond the lists that were cut after `deep` matches."""
    cut = [{match.episode for match in answer.matches} for answer in answers if len(answer.matches) >= deep]
    if not cut:
        return True
    beyond = reciprocal_rank(deep) / len(answers)  # the most that a list gives to what it does not show
    others = {id_: score + beyond * sum(id_ not in shown for shown in cut) for id_, score in scores.items()}
    for id_ in order:
        del others[id_]
    best = max(others.values(), default=0.0)
    complete = all(id_ in shown for id_ in order for shown in cut)
    return complete and min(scores[id_] for id_ in order) > max(best, beyond * len(cut))


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
    there: Callable[[Sequence[Match]], Collection[Match]] = lambda matches: matches,
) -> Ranker:
    """Rank anew what another way ranks first, so that hits differ from each other.

    spaces: by the mean of their cosines there hits differ. there: which matches can be hits; from the others, which
    come last, no hit has to differ. Exact where none that is ranked later could have been chosen, unlike as it might
    be to those that were.
    """

    def choose(request: Request) -> Answer:
        deep = depth(request.top_k)
        answer = rank(replace(request, top_k=deep))
        present = there(answer.matches)
        able = [match for match in answer.matches if match in present]
        if not able:
            return answer
        rows = np.concatenate([read_rows(stored, space, able) for space in spaces], axis=1) / np.sqrt(len(spaces))
        scores = np.array([match.score for match in able])
        chosen, values = select_diverse(scores, rows, request.top_k, diversity=diversity)
        beyond = (1 - diversity) * answer.matches[-1].score + diversity  # of the opposite of all that were chosen
        everything = len(answer.matches) < deep
        exact = answer.exact and (everything or min(values[1:], default=np.inf) > beyond)
        others = [match for match in answer.matches if match not in present]
        return replace(answer, matches=(*(able[number] for number in chosen), *others), exact=exact)

    return choose


def read_rows(stored: StoredVectors, space: Space, matches: Sequence[Match]) -> NDArray[np.float32]:
    """Return the vectors [n, E] of matches in a Space, zeros for episodes that have none there."""
    columns = Matches.of(matches)
    found = stored.load(space, columns.episodes.tolist())
    places, there = found.find(columns.episodes)
    rows = np.zeros((len(columns), space.dim), np.float32)
    rows[there] = found.pick(places[there], columns.windows[there])
    return rows


def join_explanations(answers: Sequence[Answer]) -> Explanation | None:
    """Return how several answers were found, together; None where none of them says it."""
    parts = [answer.explained for answer in answers if answer.explained is not None]
    if not parts:
        return None
    sums = {name: sum(getattr(one, name) for one in parts) for name in ("scored", "lists", "all_lists", "tail")}
    spent: dict[str, float] = {}
    for one in parts:
        for name, value in one.milliseconds.items():
            spent[name] = spent.get(name, 0.0) + value
    return Explanation(
        " + ".join(one.route for one in parts),
        sum(one.passing for one in parts),
        **sums,
        milliseconds=spent,
        kernel=" + ".join(dict.fromkeys(one.kernel for one in parts)),
    )
