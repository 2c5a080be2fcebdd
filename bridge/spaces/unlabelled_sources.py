"""Find sources of another scale that nothing names, by the means and spreads of episodes alone.

These are taken for a mixture of two normal distributions of one covariance. Behaviours are such groups, too. But they
differ in shape, by another ratio in each channel, or in part only, so every mixture that is found is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.spaces.sources import (
    MAX_CHANNELS,
    compare_groups,
    discriminate,
    fit_discriminant,
    make_source,
    measure_distances,
    measure_features,
)
from embedders.standardise import STD_FLOOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.spaces.sources import SampledLane
    from embedders.units import SourceScale

    Rows = NDArray[np.float64]
    Mask = NDArray[np.bool_]

_MIN_EPISODES: Final = 24
_MIN_CHANNELS: Final = 3
_MOVING: Final = 0.5  # of the episodes, in a channel that counts
_MIN_SHARE: Final = 0.15  # of the episodes, from the smaller source
_MIN_SMALLER: Final = 8  # episodes from it
_DIRECTIONS: Final = 4  # along which episodes differ most
_STARTS: Final = 8  # single features and directions that part the episodes most clearly
_ROUNDS: Final = 40
_NEIGHBOURS: Final = 6
_MIN_DISTANCE: Final = 3.5  # of the middles, in standard deviations
_FAR: Final = 0.4  # natural logarithms: a ratio of 1.5
_ALIKE: Final = 0.3  # natural logarithms by which the channels differ from their common ratio, on average
_SAME_SIDE: Final = 0.9  # of the channels are larger in one source
_MAX_WRONG: Final = 0.1  # of the episodes, by mean and spread


def find_source(lane: SampledLane) -> SourceScale | None:
    """Return what tells the episodes of the smaller source apart; None for one source."""
    if len(lane.episodes) < _MIN_EPISODES or lane.channels > MAX_CHANNELS:
        return None
    if ((lane.table.stds > STD_FLOOR).mean(axis=0) > _MOVING).sum() < _MIN_CHANNELS:
        return None
    features = measure_features(lane.table)
    for one in (features - _average_alike(features, lane.shapes), features):
        found = [_separate(one, above) for above in _part(one)]
        for distance, is_other in sorted(found, key=lambda one: -one[0]):
            if distance and (source := _describe(lane, is_other)):
                return source
    return None


def _average_alike(features: Rows, shapes: Rows) -> Rows:
    """Return the mean features [N, F] of the episodes that have the most similar shapes, whatever their scale."""
    distances = measure_distances(shapes, shapes)
    np.fill_diagonal(distances, np.inf)
    mean: Rows = features[np.argsort(distances, axis=1)[:, :_NEIGHBOURS]].mean(axis=1)
    return mean


def _describe(lane: SampledLane, is_other: Mask) -> SourceScale | None:
    """Return the source of these episodes, if they are from one."""
    scale = compare_groups(lane, is_other, ~is_other)
    if scale is None or not _is_one(np.log(scale[0])):
        return None
    discriminant = discriminate(lane.table, is_other, _MAX_WRONG)
    return make_source(discriminant, scale) if discriminant else None


def _is_one(ratios: Rows) -> bool:
    """Return whether logarithms of ratios [C] are nearly the same, and not nearly 0."""
    middle = np.median(ratios)
    is_far = abs(middle) > _FAR and np.abs(ratios - middle).mean() < _ALIKE
    return bool(is_far and (ratios * middle > 0).mean() >= _SAME_SIDE)


def _part(features: Rows) -> list[Mask]:
    """Return which episodes [N] are above the gap of each feature [N, F], or direction, that parts them most clearly.

    That is the threshold with the largest share of the variance between both sides.
    """
    scaled, sizes, _ = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    columns = np.concatenate([features, (scaled * sizes)[:, :_DIRECTIONS]], axis=1)
    columns -= columns.mean(axis=0)
    ordered, count = np.sort(columns, axis=0), len(columns)
    below = np.arange(1, count)[:, None]
    between = np.cumsum(ordered, axis=0)[:-1] ** 2 / (below * (count - below))
    shares = count * between.max(axis=0) / np.maximum(np.square(columns).sum(axis=0), STD_FLOOR)
    limits = np.take_along_axis(ordered, between.argmax(axis=0)[None], 0)[0]
    chosen = np.argsort(-shares, kind="stable")[:_STARTS]
    return [columns[:, one] > limits[one] for one in chosen.tolist()]


def _separate(features: Rows, is_other: Mask) -> tuple[float, Mask]:
    """Return the distance of the middles of two groups, moved until each has what is nearer to it, and the smaller one.

    The distance is in standard deviations, and 0 where they are too near, or one is too small.
    """
    least = max(_MIN_SMALLER, _MIN_SHARE * len(features))
    for _ in range(_ROUNDS):
        weights, bias = fit_discriminant(features, is_other)
        before, is_other = is_other, features @ weights + bias > 0
        if min(is_other.sum(), (~is_other).sum()) < least:
            return 0.0, before
        if (is_other == before).all():
            break
    middles = features[is_other].mean(axis=0) - features[~is_other].mean(axis=0)
    distance = float(np.sqrt(weights @ middles))
    smaller = is_other if 2 * is_other.sum() <= len(is_other) else ~is_other
    return distance if distance > _MIN_DISTANCE else 0.0, smaller
