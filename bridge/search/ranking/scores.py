"""Puts cosines of several Spaces, and ranks of several lists, on one scale.

A cosine says little by itself: of windows the best of many is always high. So distance (1 - cosine) is measured in
that of the average episode: 1 is the same, 0 as far as the average episode, below 0 farther.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bridge.index.base import Vectors

    Scores = NDArray[np.float64]


WINDOWS_WEIGHT: Final = 0.25
"""What the best window counts beside the expanded query on whole episodes."""


STEEPNESS: Final = 4.0
"""How fast the score of what is nearly the query itself falls, where nothing else holds it up."""


_PART_STEEPNESS: Final = 40.0  # the same of windows, which count less: of exact copies of the query alone


RANK_OFFSET: Final = 60
"""Of reciprocal ranks: how little the very first places differ."""


_NEAREST: Final = 1e-3  # the average episode of an archive of copies is not nearer than that


def calibrate(cosines: Scores, background: float) -> Scores:
    """Return 1 - (1 - cosine) / (1 - background); background: the mean cosine of the query with other episodes."""
    scaled: Scores = 1.0 - (1.0 - cosines) / max(1.0 - background, _NEAREST)
    return scaled


def combine_nearness(whole: Scores, windows: Scores, share: float = 1.0) -> Scores:
    """Return how near episodes are, as a whole or in part: the better of two calibrated similarities.

    share: what windows count, from 0 to 1; what has the query itself as a window is near all the same.
    """
    if share == 1.0:
        return np.maximum(whole, windows)
    nearer: Scores = np.maximum(whole, share * windows) if share else whole
    return np.maximum(nearer, 1.0 - _PART_STEEPNESS * (1.0 - windows))


def fuse_scores(near: Scores, grown: Scores, windows: Scores | None, share: float = 1.0) -> Scores:
    """Return the score of episodes: nearness, similarity to the expanded query, and of the best window, calibrated.

    It is 1 where near is 1, and below 1 elsewhere unless the others are 1 too. share: as in combine_nearness.
    """
    weight = share * WINDOWS_WEIGHT
    similarity = (grown + weight * windows) / (1 + weight) if weight and windows is not None else grown
    scores: Scores = np.maximum(similarity, 1.0 - STEEPNESS * (1.0 - near))
    return scores


def reciprocal_ranks(lists: Sequence[Sequence[int]]) -> dict[int, float]:
    """Return a score for every number in the lists: the sum of 1 / (60 + rank), 1 for what is first in all of them.

    What is in one list only is as far behind in the others as anything can be: it gets nothing from them.
    """
    scores: dict[int, float] = {}
    for listed in lists:
        for rank, number in enumerate(listed):
            scores[number] = scores.get(number, 0.0) + reciprocal_rank(rank) / len(lists)
    return scores


def reciprocal_rank(rank: int) -> float:
    """Return what a place is worth: 1 for the first, which has rank 0."""
    return (RANK_OFFSET + 1) / (RANK_OFFSET + 1 + rank)


AGAINST: Final = 0.5
"""What the mean of the counter-examples counts against the mean of the examples (Rocchio's rule)."""


_LEAST: Final = 1e-6


def combine_examples(like: NDArray[np.floating], unlike: NDArray[np.floating]) -> Vectors:
    """Return the unit vector of mean(like [n, E]) - AGAINST * mean(unlike [m, E]), m may be 0; one example is itself.

    Raises QueryError where they cancel out.
    """
    if len(like) == 1 and not len(unlike):
        return np.asarray(like[0], np.float32)
    towards = like.mean(axis=0, dtype=np.float64)
    if len(unlike):
        towards = towards - AGAINST * unlike.mean(axis=0, dtype=np.float64)
    if np.linalg.norm(towards) < _LEAST:
        raise QueryError("the examples cancel out: expected some that have more in common, or fewer counter-examples")
    return unit(towards)


def expand_query(
    query: Vectors, hits: NDArray[np.floating], similarities: NDArray[np.float64], *, own: float, power: float
) -> Vectors:
    """Return unit(own * query [E] + the sum of hits [n, E], each times max(similarity, 0) ** power).

    What this is without hits, or where all of it cancels out, is the query.
    """
    weights = np.maximum(similarities, 0.0) ** power
    grown = own * query.astype(np.float64) + weights @ hits.astype(np.float64)
    return unit(grown) if np.linalg.norm(grown) >= _LEAST else query


def unit(vector: NDArray[np.float64]) -> Vectors:
    """Return a vector that is not zero at length 1, as float32 [E]."""
    scaled: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
    return scaled
