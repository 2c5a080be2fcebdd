"""Tell apart groups of episodes that have a lane from two sources, such as robots of two sizes; relate their scales.

Groups that do different things differ in shape, whatever their scale. Those of two sources differ by scale and offset
alone: in shape they are mixed, and converted to one scale they are mixed as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from embedders.standardise import STD_FLOOR
from embedders.units import SourceScale, relate_spreads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Mask = NDArray[np.bool_]

Scale: TypeAlias = "tuple[Rows, Rows]"
"""Ratios and offsets [C]."""

MAX_CHANNELS: Final = 64
"""Of a lane: with more, a few episodes do not show what tells sources apart."""

_COEFFICIENTS: Final = np.arange(1, 13)  # of the course of a channel
_SHRINKAGE: Final = 0.05
_NEIGHBOURS: Final = 5
_APART: Final = 0.5
_MIXED_SHAPES: Final = 0.8
_MIXED: Final = 0.85
"""Shares of neighbours of the other group, of those expected where groups say nothing: at most as the episodes are, and
at least by their shapes, and as converted."""
_ROUNDS: Final = 10
_FAR: Final = 5.0


class Table(NamedTuple):
    """Mean and spread of the channels of episodes, [N, C] each."""

    means: Rows
    stds: Rows

    @staticmethod
    def of(episodes: Sequence[Rows]) -> Table:
        """Return that of rows [T, C]."""
        return Table(
            np.array([rows.mean(axis=0) for rows in episodes]), np.array([rows.std(axis=0) for rows in episodes])
        )

    def pick(self, chosen: Mask | NDArray[np.int64]) -> Table:
        """Return that of these episodes."""
        return Table(self.means[chosen], self.stds[chosen])

    def convert(self, chosen: NDArray[np.int64], ratios: Rows, offsets: Rows) -> Table:
        """Return that in which these episodes have another scale."""
        means, stds = self.means.copy(), self.stds.copy()
        means[chosen], stds[chosen] = (means[chosen] - offsets) / ratios, stds[chosen] / ratios
        return Table(means, stds)

    @property
    def logs(self) -> Rows:
        """Logarithms of the spreads."""
        return np.log(np.maximum(self.stds, STD_FLOOR))


@dataclass(frozen=True, eq=False)
class SampledLane:
    """Rows [T, C] of a lane in several episodes, and what is compared of them: the sizes and the shapes [N, D]."""

    episodes: Sequence[Rows]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.episodes[0].shape[1])

    @cached_property
    def table(self) -> Table:
        """Means and spreads."""
        return Table.of(self.episodes)

    @cached_property
    def shapes(self) -> Rows:
        """See shape_of."""
        return np.array([*map(shape_of, self.episodes)])


def shape_of(rows: Rows) -> Rows:
    """Return the course of standardised channels and their correlations, which neither scale nor offset changes."""
    length, channels = rows.shape
    stds = rows.std(axis=0)
    scored = (rows - rows.mean(axis=0)) / np.where(stds < STD_FLOOR, 1, stds)
    course = _waves(length) @ scored / length
    together = (scored.T @ scored / length)[np.triu_indices(channels, 1)]
    return np.concatenate([2 * course.ravel(), together / max(1.0, np.sqrt(channels) / 2)])


def measure_distances(first: Rows, second: Rows) -> Rows:
    """Return the squared distances [N, M] of vectors [N, D] and [M, D]."""
    distances: Rows = np.square(first).sum(axis=1)[:, None] + np.square(second).sum(axis=1) - 2 * first @ second.T
    return distances


@lru_cache(maxsize=256)
def _waves(length: int) -> Rows:
    return np.cos(np.pi * np.outer(_COEFFICIENTS, (np.arange(length) + 0.5) / length))


def discriminate(table: Table, is_other: Mask, most_wrong: float) -> dict[str, Any] | None:
    """Return the numbers of a SourceScale that tell these episodes from others, by Fisher's discriminant.

    None if more than that share would be taken for the other kind.
    """
    if min(is_other.sum(), (~is_other).sum()) < 2:
        return None
    centers, spreads = np.median(table.means, axis=0), np.maximum(np.median(table.stds, axis=0), STD_FLOOR)
    marks = relate_spreads(table.means, table.stds, centers, spreads)
    weights, bias = fit_discriminant(marks, is_other)
    if np.mean((marks @ weights + bias > 0) != is_other) > most_wrong:
        return None
    return {
        "centers": tuple(centers.tolist()),
        "spreads": tuple(spreads.tolist()),
        "weights": tuple(weights.tolist()),
        "bias": bias,
    }


def fit_discriminant(features: Rows, is_other: Mask) -> tuple[Rows, float]:
    """Return weights [F] and a bias by Fisher's discriminant; their sum is positive for what is like the others [N, F].

    The weights times the difference of both means is the squared distance of these, in standard deviations.
    """
    middle = np.array([features[~is_other].mean(axis=0), features[is_other].mean(axis=0)])
    rest = features - middle[is_other.astype(np.int64)]
    within = rest.T @ rest / len(rest)
    within += np.diag(_SHRINKAGE * np.diag(within) + STD_FLOOR)
    weights = np.linalg.solve(within, middle[1] - middle[0])
    return weights, -float(weights @ middle.mean(axis=0))


def relate(table: Table, others: NDArray[np.int64], usual: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Return ratio and offset [C] of the other source by pairs; a channel at rest has the ratio of the others."""
    is_moving = (table.stds[others] > STD_FLOOR) & (table.stds[usual] > STD_FLOOR)
    logs = table.logs[others] - table.logs[usual]
    known = np.median(logs[is_moving]) if is_moving.any() else 0.0
    found = [np.median(one[moves]) if moves.any() else known for one, moves in zip(logs.T, is_moving.T, strict=True)]
    ratios = np.exp(np.array(found))
    return ratios, np.median(table.means[others] - ratios * table.means[usual], axis=0)


def compare_groups(lane: SampledLane, is_other: Mask, is_usual: Mask) -> Scale | None:
    """Return ratios and offsets [C] of the other label's episodes; None if these do not tell both apart."""
    table, shapes = lane.table, lane.shapes
    other, usual = np.flatnonzero(is_other), np.flatnonzero(is_usual)
    both, count = np.concatenate([other, usual]), len(other)
    if _mixed(measure_features(table.pick(both)), count) > _APART or _mixed(shapes[both], count) < _MIXED_SHAPES:
        return None
    pairs = other.repeat(len(usual)), np.tile(usual, len(other))
    ratios, offsets = relate(table, *pairs)
    for _ in range(_ROUNDS):
        converted = table.convert(other, ratios, offsets).pick(both)
        features = np.concatenate([measure_features(converted), shapes[both]], axis=1)
        distances = measure_distances(features[:count], features[count:])
        first = np.concatenate([other, other[distances.argmin(axis=0)]])
        second = np.concatenate([usual[distances.argmin(axis=1)], usual])
        ratios, offsets = relate(table, first, second)
    converted = table.convert(other, ratios, offsets).pick(both)
    return (ratios, offsets) if _mixed(measure_features(converted), count) >= _MIXED else None


def measure_features(table: Table) -> Rows:
    """Return robust scores of means and logarithms of spreads [N, 2 * C]."""
    spreads = np.maximum(np.median(table.stds, axis=0), STD_FLOOR)
    marks = relate_spreads(table.means, table.stds, np.median(table.means, axis=0), spreads)
    centered = marks - np.median(marks, axis=0)
    deviations = np.maximum(1.48 * np.median(np.abs(centered), axis=0), 1e-3)
    return np.clip(centered / deviations, -_FAR, _FAR)


def _mixed(features: Rows, count: int) -> float:
    """Return the share of neighbours of the other group, of that expected by chance; the first `count` are one."""
    distances = measure_distances(features, features)
    np.fill_diagonal(distances, np.inf)
    is_first = np.arange(len(features)) < count
    is_cross = is_first[np.argsort(distances, axis=1)[:, :_NEIGHBOURS]] != is_first[:, None]
    others = len(features) - 1
    parts = [is_cross[is_first].mean() / (len(features) - count), is_cross[~is_first].mean() / count]
    return float(np.mean(parts)) * others


def make_source(discriminant: dict[str, Any] | None, scale: tuple[Rows, Rows], **labels: Any) -> SourceScale:
    """Return the source with these ratios and offsets; without a discriminant, labels alone tell it."""
    ratios, offsets = scale
    channels = len(ratios)
    none = {
        "centers": (0.0,) * channels,
        "spreads": (1.0,) * channels,
        "weights": (0.0,) * 2 * channels,
        "bias": 0.0,
    }
    return SourceScale(
        channels=tuple(range(channels)),
        **(discriminant or none),
        offsets=tuple(offsets.tolist()),
        ratios=tuple(ratios.tolist()),
        **labels,
    )
