"""Weights the blocks (descriptors) of vectors by how well each of them groups the episodes of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.support.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bridge.index.base import Vectors

    Floats = NDArray[np.float64]

NEIGHBOURS: Final = 8
"""Number of nearest neighbours of each sampled episode, by one descriptor."""
SHARPNESS: Final = 16.0
"""Exponent of the share of mutual neighbours that gives the weight of a descriptor."""
_MIN_SAMPLE: Final = 32  # episodes; in a smaller sample nearly all are neighbours of all
_BATCH_SIZE: Final = 1 << 18  # numbers converted to float64 at a time: two megabytes
_MIN_DISTANCE: Final = 1e-3  # lower bound of mean distances, as in bridge.search.ranking.scores, for archives of copies
_SILENT: Final = 1e-30  # the squared length of vectors whose lanes do not count
_ROUNDING: Final = 1e-6  # by which rounding vectors to float32 may lower a cosine of 1


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """Weights of the values of a vector [E]; None: equal weights.

    square: the weighted squared length of every stored vector, which is the same for all as their blocks have equal
    length; None if lanes are weighted, too, so that lengths differ. windows: weight of windows beside whole episodes,
    from 0 to 1.
    """

    values: Floats | None = None
    square: float | None = 1.0
    windows: float = 1.0

    @staticmethod
    def of(numbers: Sequence[float], sizes: Sequence[int]) -> BlockWeights:
        """Return weights from numbers: that of windows, then those of blocks of these sizes; none: equal weights."""
        return BlockWeights(np.repeat(numbers[1:], sizes), windows=numbers[0]) if numbers else BlockWeights()

    def weigh(self, vector: Vectors) -> tuple[Vectors, float]:
        """Return the weighted unit vector [E] to search for, and the score of the vector itself in that search."""
        if self.values is None:
            return vector, 1.0
        own = vector.astype(np.float64)
        weighed = own * self.values
        length = max(float(np.linalg.norm(weighed)), _SILENT)
        square = float(weighed @ own) if self.square is None else self.square
        top = float(np.sqrt((weighed @ own) * square)) / length
        return (weighed / length).astype(np.float32), top

    def of_lanes(self, factors: Floats, shares: Floats) -> BlockWeights:
        """Return the weights if channels count by these factors [channels] as well; shares: of channels in values."""
        counts = factors > 0
        values = np.exp(shares[:, counts] @ np.log(factors[counts]))  # an area of two channels: by both
        values[shares[:, ~counts].any(axis=1)] = 0.0
        return BlockWeights(values if self.values is None else self.values * values, None, self.windows)

    def cosines(self, vectors: Vectors, vector: Vectors) -> Floats:
        """Return the weighted cosines [n] of vectors [n, E] with another vector [E]."""
        cosines: Floats = self.cosines_with(vectors, vector[None])[0]
        return cosines

    def cosines_with(self, vectors: Vectors, others: Vectors) -> Floats:
        """Return the weighted cosines [m, n] of vectors [n, E] with others [m, E], each as if it were the only one."""
        own = others.astype(np.float64)
        weighed = own if self.values is None else own * self.values
        cosines = np.empty((len(own), len(vectors)))
        batch = max(1, _BATCH_SIZE // own.shape[1])
        for start in range(0, len(vectors), batch):
            part = vectors[start : start + batch]
            rows = scratch(*part.shape)
            rows[:] = part
            found = cosines[:, start : start + batch]
            for one, products in zip(weighed, found, strict=True):
                np.matmul(rows, one, out=products)
            if self.values is None:
                squares = np.vecdot(rows, rows)
            else:
                rows *= rows
                squares = rows @ self.values
            for number, one in enumerate(own):
                found[number] /= np.sqrt(np.maximum(squares * (one @ weighed[number]), _SILENT))
        return cosines


def rescale(scores: Floats, top: float) -> Floats:
    """Return scores of a weighted search as cosines: exactly 1 for the vector itself, despite rounding."""
    cosines: Floats = scores / top
    cosines[cosines > 1.0 - _ROUNDING] = 1.0
    return cosines


def measure_weights(sample: NDArray[np.float32], sizes: Sequence[int]) -> list[float]:
    """Return the numbers for BlockWeights.of, measured for blocks of these sizes on a sample of whole episodes [n, E].

    A descriptor that separates behaviours forms groups, in which the neighbours of an episode are neighbours of each
    other; otherwise neighbours are random. The share of such pairs needs neither labels nor a scale. Each descriptor is
    also divided by the mean distance of episodes by it.
    """
    if len(sizes) < 2 or len(sample) < _MIN_SAMPLE:
        return []
    parts = np.split(sample.astype(np.float64), np.cumsum(sizes)[:-1], axis=1)
    buffers = np.empty(
        (2, len(sample), len(sample))
    )  # reused: allocating memory would take longer than the computation
    measured = [_measure(part / np.linalg.norm(part, axis=1, keepdims=True), *buffers) for part in parts]
    groups = np.array([group for group, _ in measured])
    relative = groups / max(groups.max(), _MIN_DISTANCE)
    weights = relative**SHARPNESS / np.array([spread for _, spread in measured])
    weights /= weights.mean()
    return [float(relative[0] ** 2), *weights.tolist()]


def _measure(rows: Floats, similarities: Floats, ranked: Floats) -> tuple[float, float]:
    """Return the share of pairs of neighbours that are neighbours of each other, and the mean distance of all pairs.

    similarities, ranked: buffers [n, n].
    """
    np.matmul(rows, rows.T, out=similarities)
    count = len(rows)
    spread = 1.0 - (similarities.sum() - np.trace(similarities)) / (count * (count - 1))
    np.fill_diagonal(similarities, -2.0)
    ranked[:] = similarities
    ranked.partition(count - NEIGHBOURS, axis=1)
    near = similarities >= ranked[:, count - NEIGHBOURS, None]
    if np.count_nonzero(near) == count * NEIGHBOURS:
        nearest = near.nonzero()[1].reshape(count, NEIGHBOURS)
    else:  # ties: choosing among them takes ten times as long
        nearest = np.argpartition(-similarities, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        near[:] = False
        near[np.arange(count)[:, None], nearest] = True
    pairs = near[nearest[:, :, None], nearest[:, None, :]].sum()  # an episode is no neighbour of itself
    return float(pairs) / (count * NEIGHBOURS * (NEIGHBOURS - 1)), max(float(spread), _MIN_DISTANCE)
