"""Puts cosines of several Spaces, and ranks of several lists, on one scale.

Cosines are not comparable by themselves: the best of many windows always has a high one. Therefore the distance
(1 - cosine) is divided by that of the average episode: 1 means equal, 0 as far as the average episode, below 0 farther.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bridge.graph.block_weights import BlockWeights
    from bridge.index.base import Ids, Vectors

    Scores = NDArray[np.float64]

Named = TypeVar("Named", int, str)


WINDOWS_WEIGHT: Final = 0.25
"""Weight of the best window beside the expanded query on whole episodes."""


STEEPNESS: Final = 4.0
"""Slope with which the lower bound of the score falls for episodes that nearly equal the query."""


_PART_STEEPNESS: Final = 40.0  # the same for windows: steeper, so that it applies to exact copies of the query only


AGREEING: Final = 0.5
"""Share of the hits taken so far of which another must be a neighbour for a query to be expanded by it."""


RANK_OFFSET: Final = 60
"""Offset of reciprocal ranks: the greater, the less the first ranks differ."""


_MIN_DISTANCE: Final = 1e-3  # lower bound of the average distance, for archives of copies


def calibrate(cosines: Scores, background: float) -> Scores:
    """Return 1 - (1 - cosine) / (1 - background); background: the mean cosine of the query with other episodes."""
    scaled: Scores = 1.0 - (1.0 - cosines) / max(1.0 - background, _MIN_DISTANCE)
    return scaled


def combine_nearness(whole: Scores, windows: Scores, shares: Scores) -> Scores:
    """Return the nearness of episodes, as a whole or in part: the higher of two calibrated similarities.

    shares: weights of windows, from 0 to 1; an episode that has the query itself as a window is near in any case.
    """
    nearness = np.where(shares > 0, np.maximum(whole, shares * windows), whole)
    return np.maximum(nearness, np.where(shares == 1, windows, 1.0 - _PART_STEEPNESS * (1.0 - windows)))


def fuse_scores(near: Scores, expanded: Scores, windows: Scores | None, share: float = 1.0) -> Scores:
    """Return scores from calibrated similarities: nearness, that to the expanded query, that of the best window.

    It is 1 where near is 1, and below 1 elsewhere unless the others are 1. share: as in combine_nearness.
    """
    weight = share * WINDOWS_WEIGHT
    similarity = (expanded + weight * windows) / (1 + weight) if weight and windows is not None else expanded
    return floor_scores(similarity, near)


def floor_scores(scores: Scores, near: Scores) -> Scores:
    """Return scores that are not below what nearly equal episodes get by their nearness alone: 1 where that is 1."""
    floored: Scores = np.maximum(scores, 1.0 - STEEPNESS * (1.0 - near))
    return floored


def differing(nearness: Scores) -> NDArray[np.bool_]:
    """Return a mask of those that do not equal the query; of all if all do."""
    differs: NDArray[np.bool_] = nearness < 1.0
    return differs if differs.any() else ~differs


def put_first(scores: Scores, nearness: Scores) -> None:
    """Raise the score of the nearest that does not equal the query above all others that do not, to 1 at most."""
    others = np.flatnonzero(differing(nearness))
    first = others[np.argmax(nearness[others])]
    scores[first] = max(scores[first], min(1.0, np.nextafter(scores[others].max(), np.inf)))


def find_agreeing(weights: BlockWeights, vectors: Vectors, seeds: Ids) -> Ids:
    """Return the first of the seeds, and those of the others that are neighbours of half of the ones before them.

    seeds: places of vectors [n, E]. Neighbours are among the nearest of each other, as many as there are seeds.
    """
    cosines = weights.cosines_with(vectors, vectors[seeds])
    cosines[np.arange(len(seeds)), seeds] = -np.inf
    count = min(len(seeds), len(vectors) - 1)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    near = (nearest[:, :, None] == seeds).any(axis=1)
    mutual, chosen = near & near.T, [0]
    for place in range(1, len(seeds)):
        if mutual[place, chosen].mean() >= AGREEING:
            chosen.append(place)
    return seeds[chosen]


def reciprocal_ranks(lists: Sequence[Sequence[Named]]) -> dict[Named, float]:
    """Return a score for everything in the lists: the sum of 1 / (60 + rank), scaled so that the first in all has 1.

    A list adds nothing to the score of what it does not have.
    """
    scores: dict[Named, float] = {}
    for listed in lists:
        for rank, number in enumerate(listed):
            scores[number] = scores.get(number, 0.0) + (RANK_OFFSET + 1) / (RANK_OFFSET + 1 + rank) / len(lists)
    return scores


AGAINST: Final = 0.5
"""Weight of the mean counter-example, subtracted from the mean example (Rocchio's rule)."""


_MIN_LENGTH: Final = 1e-6


def combine_examples(like: NDArray[np.floating], unlike: NDArray[np.floating]) -> Vectors:
    """Return the unit vector of mean(like [n, E]) - AGAINST * mean(unlike [m, E]), m may be 0; one example is itself.

    Raises QueryError where they cancel out.
    """
    if len(like) == 1 and not len(unlike):
        return np.asarray(like[0], np.float32)
    direction = like.mean(axis=0, dtype=np.float64)
    if len(unlike):
        direction = direction - AGAINST * unlike.mean(axis=0, dtype=np.float64)
    if np.linalg.norm(direction) < _MIN_LENGTH:
        raise QueryError("the examples cancel out: expected some that have more in common, or fewer counter-examples")
    return unit(direction)


def expand_query(
    query: Vectors, hits: NDArray[np.floating], similarities: NDArray[np.float64], *, own: float, power: float
) -> Vectors:
    """Return unit(own * query [E] + the sum of hits [n, E], each times max(similarity, 0) ** power).

    Without hits, or if they cancel out, this is the query.
    """
    weights = np.maximum(similarities, 0.0) ** power
    expanded = own * query.astype(np.float64) + weights @ hits.astype(np.float64)
    return unit(expanded) if np.linalg.norm(expanded) >= _MIN_LENGTH else query


def unit(vector: NDArray[np.float64]) -> Vectors:
    """Return a non-zero vector scaled to length 1, as float32 [E]."""
    scaled: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
    return scaled
