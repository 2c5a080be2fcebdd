"""Find lanes that come from two sources, such as robots of another size, by episodes that do the same.

Episodes that do the same have the same shape, whatever their scale. Where their spreads differ, they differ by one
ratio in all channels: that of the sources. Episodes of one source differ by none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from embedders.standardise import STD_FLOOR
from embedders.units import SourceScale, relate_spreads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Mask = NDArray[np.bool_]

_MIN_EPISODES: Final = 24
MAX_CHANNELS: Final = 64  # with more, a few episodes do not show what tells sources apart
_NEIGHBOURS: Final = 3
_COEFFICIENTS: Final = np.arange(1, 13)  # of the course of a channel
_MOVING: Final = 0.9  # of the episodes, in a channel that counts
_ALIKE: Final = 0.15
"""Natural logarithms by which the channels of two episodes differ from their common ratio, where it is one."""
_MIN_ALIKE: Final = 0.4  # of the pairs
_FAR: Final = 0.4  # natural logarithms: a ratio of 1.5
_MIN_SHARES: Final = ((0.9, 0.1), (0.7, 0.25))
"""Shares of the pairs that have no ratio or that of the sources, and that have the latter: one of both is reached."""
_MIN_KNOWN: Final = 0.6  # of the episodes, whose source their neighbours show
_MAX_WRONG: Final = 0.02  # of these, by mean and spread
_SHRINKAGE: Final = 0.05
_SPREAD_ROUNDS: Final = 10


class _Pairs(NamedTuple):
    """Pairs of episodes that do the same: their numbers, and the logarithm of the first one's spread to the other's."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    ratio: Rows


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


def find_source(lane: SampledLane) -> SourceScale | None:
    """Return what tells the episodes of the smaller source apart; None for one source."""
    if len(lane.episodes) < _MIN_EPISODES or lane.channels > MAX_CHANNELS:
        return None
    table = lane.table
    is_moving = (table.stds > STD_FLOOR).mean(axis=0) > _MOVING
    if is_moving.sum() < 2:
        return None
    pairs = _pair(lane.shapes, table.logs[:, is_moving])
    if pairs is None:
        return None
    far = np.abs(pairs.ratio)[np.abs(pairs.ratio) > _FAR]
    distance = float(np.median(far)) if far.size else 0.0
    is_same = np.abs(pairs.ratio) < distance / 4
    is_cross = np.abs(np.abs(pairs.ratio) - distance) <= distance / 4
    shares = float((is_same | is_cross).mean()), float(is_cross.mean())
    if not is_same.any() or not any(shares[0] >= both and shares[1] >= cross for both, cross in _MIN_SHARES):
        return None
    side = _tell_sides(pairs, is_same, is_cross, len(lane.episodes))
    is_known = side != 0
    sign = 1 if 2 * (side > 0).sum() <= is_known.sum() else -1  # the smaller source has it
    discriminant = discriminate(table.pick(is_known), side[is_known] == sign, _MAX_WRONG)
    if is_known.mean() < _MIN_KNOWN or discriminant is None:
        return None
    first, second, is_first = pairs.first[is_cross], pairs.second[is_cross], pairs.ratio[is_cross] * sign > 0
    scale = relate(table, np.where(is_first, first, second), np.where(is_first, second, first))
    return make_source(discriminant, scale)


def _pair(shapes: Rows, logs: Rows) -> _Pairs | None:
    """Return the nearest episodes by shape whose channels have one ratio; None if there are too few."""
    distances = measure_distances(shapes, shapes)
    np.fill_diagonal(distances, np.inf)
    second = np.argsort(distances, axis=1)[:, :_NEIGHBOURS].ravel()
    first = np.repeat(np.arange(len(shapes)), _NEIGHBOURS)
    differences = logs[first] - logs[second]
    ratio = np.median(differences, axis=1)
    is_one = np.median(np.abs(differences - ratio[:, None]), axis=1) <= _ALIKE
    return _Pairs(first[is_one], second[is_one], ratio[is_one]) if is_one.mean() >= _MIN_ALIKE else None


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


def _tell_sides(pairs: _Pairs, is_same: Mask, is_cross: Mask, episodes: int) -> Rows:
    """Return 1 for episodes of the larger source, -1 for others, 0 where unknown: by ratios, then by neighbours."""
    side = np.zeros(episodes)
    signs = np.sign(pairs.ratio[is_cross])
    np.add.at(side, pairs.first[is_cross], signs)
    np.add.at(side, pairs.second[is_cross], -signs)
    first, second = pairs.first[is_same], pairs.second[is_same]
    side = np.sign(side)
    for _ in range(_SPREAD_ROUNDS):
        votes = 2 * side
        np.add.at(votes, first, side[second])
        np.add.at(votes, second, side[first])
        side = np.sign(votes)
    return side


def discriminate(table: Table, is_other: Mask, most_wrong: float) -> dict[str, Any] | None:
    """Return the numbers of a SourceScale that tell these episodes from others, by Fisher's discriminant.

    None if more than that share would be taken for the other kind.
    """
    if min(is_other.sum(), (~is_other).sum()) < 2:
        return None
    centers, spreads = np.median(table.means, axis=0), np.maximum(np.median(table.stds, axis=0), STD_FLOOR)
    marks = relate_spreads(table.means, table.stds, centers, spreads)
    middle = np.array([marks[~is_other].mean(axis=0), marks[is_other].mean(axis=0)])
    rest = marks - middle[is_other.astype(np.int64)]
    within = rest.T @ rest / len(rest)
    within += np.diag(_SHRINKAGE * np.diag(within) + STD_FLOOR)
    weights = np.linalg.solve(within, middle[1] - middle[0])
    bias = -float(weights @ middle.mean(axis=0))
    if np.mean((marks @ weights + bias > 0) != is_other) > most_wrong:
        return None
    return {
        "centers": tuple(centers.tolist()),
        "spreads": tuple(spreads.tolist()),
        "weights": tuple(weights.tolist()),
        "bias": bias,
    }


def relate(table: Table, others: NDArray[np.int64], usual: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Return ratio and offset [C] of the other source by pairs; a channel at rest has the ratio of the others."""
    is_moving = (table.stds[others] > STD_FLOOR) & (table.stds[usual] > STD_FLOOR)
    logs = table.logs[others] - table.logs[usual]
    known = np.median(logs[is_moving]) if is_moving.any() else 0.0
    found = [np.median(one[moves]) if moves.any() else known for one, moves in zip(logs.T, is_moving.T, strict=True)]
    ratios = np.exp(np.array(found))
    return ratios, np.median(table.means[others] - ratios * table.means[usual], axis=0)


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
