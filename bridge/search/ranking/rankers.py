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
"""Least number of matches to take from a list whose best need not be the best overall."""


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
        exact = all(answer.exact for answer in answers) and _is_proven(answers, longer.top_k, scores, order)
        return Answer(matches, exact, scored, join_explanations(answers))

    return rankers[0] if len(rankers) == 1 else rank_together


def _is_proven(answers: Sequence[Answer], list_length: int, scores: Mapping[int, float], order: Sequence[int]) -> bool:
    """Return whether the hits are the best, whatever follows in lists truncated after list_length matches."""
    truncated = [
        {match.episode for match in answer.matches} for answer in answers if len(answer.matches) >= list_length
    ]
    if not truncated:
        return True
    unlisted_score = reciprocal_rank(list_length) / len(
        answers
    )  # the most that a list adds to the score of an unlisted episode
    upper_bounds = {
        id_: score + unlisted_score * sum(id_ not in shown for shown in truncated) for id_, score in scores.items()
    }
    for id_ in order:
        del upper_bounds[id_]
    best = max(upper_bounds.values(), default=0.0)
    complete = all(id_ in shown for id_ in order for shown in truncated)
    return complete and min(scores[id_] for id_ in order) > max(best, unlisted_score * len(truncated))


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
        upper_bound = (1 - diversity) * answer.matches[
            -1
        ].score + diversity  # the value of a match opposite to all chosen ones
        is_complete = len(answer.matches) < list_length
        exact = answer.exact and (is_complete or min(values[1:], default=np.inf) > upper_bound)
        absent = [match for match in answer.matches if match not in present]
        return replace(answer, matches=(*(usable[number] for number in chosen), *absent), exact=exact)

    return choose


def read_rows(stored: StoredVectors, space: Space, matches: Sequence[Match]) -> NDArray[np.float32]:
    """Return the vectors [n, E] of matches in a Space, zeros for episodes without vectors in it."""
    columns = Matches.of(matches)
    own = stored.load(space, columns.episodes.tolist())
    places, present = own.find(columns.episodes)
    rows = np.zeros((len(columns), space.dim), np.float32)
    rows[present] = own.pick(places[present], columns.windows[present])
    return rows


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
        sum(part.passing for part in parts),
        **sums,
        milliseconds=milliseconds,
        kernel=" + ".join(dict.fromkeys(part.kernel for part in parts)),
    )
