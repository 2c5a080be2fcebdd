"""Check and merge the answers of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bridge.index.base import Answer, Matches, find_firsts
from bridge.index.metric import COSINE
from wshard.errors import VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridge.index.base import Match, Request
    from bridge.index.shards.naming import Share


def check_answer(share: Share, answer: object, request: Request, metric: str) -> None:
    """Raise VectorIndexError unless the answer can be one of this shard: its episodes, in order, with finite scores."""
    if not isinstance(answer, Answer):
        raise VectorIndexError(f"{share}: expected an answer, found {type(answer).__name__}")
    found = answer.columns
    keys = np.lexsort((found.windows, found.episodes, -found.scores))
    wrong = {
        "at most as many matches as requested": len(found) > max(request.top_k, 0),
        "finite scores": not np.isfinite(found.scores).all(),
        "cosines": metric == COSINE and bool((np.abs(found.scores) > 1).any()),
        "episodes of its own": bool((found.episodes % share.of != share.number).any()),
        "numbers of windows": bool((found.windows < 0).any()),
        "the best first": not np.array_equal(keys, np.arange(len(found))),
        "each episode once": request.distinct and len(find_firsts(found.episodes)) < len(found),
    }
    for expected, is_wrong in wrong.items():
        if is_wrong:
            raise VectorIndexError(f"{share}: expected {expected}, found another answer; restart its worker")


def merge(answers: Mapping[Share, Answer], top_k: int) -> Matches:
    """Return the best matches of all shards; ties by episode, then window."""
    parts = [answer.columns for answer in answers.values()]
    episodes, windows, scores = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("episodes", "windows", "scores")
    )
    order = np.lexsort((windows, episodes, -scores))[: max(top_k, 0)]
    return Matches(episodes[order], windows[order], scores[order])


def find_undecided(answers: Mapping[Share, Answer], merged: Matches, *, part: int, top_k: int) -> list[Share]:
    """Return the shards whose unseen matches may be among the best top_k, when each was asked for its best `part`.

    What a shard did not show comes after the last one that it did: that is the bound of what was not looked at.
    """
    if part >= top_k:
        return []
    last = _key(merged[-1]) if len(merged) == top_k else None
    return [
        share
        for share, answer in answers.items()
        if len(answer.matches) == part and (last is None or _key(answer.columns[-1]) < last)
    ]


def _key(match: Match) -> tuple[float, int, int]:
    return -match.score, match.episode, match.window
