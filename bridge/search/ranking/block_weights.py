"""Weighs the descriptors that vectors consist of by how well each of them groups an archive's episodes."""

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
"""Of each episode of the sample, by one descriptor: how many of them are neighbours of each other."""
SHARPNESS: Final = 16.0
"""A descriptor counts this power of the share of such pairs: small differences of it are large ones of the ranking."""
_FEWEST: Final = 32  # episodes: in a smaller sample nearly all are neighbours of all
_AT_ONCE: Final = 1 << 18  # numbers that are widened to float64 at a time: two megabytes
_NEAREST: Final = 1e-3  # as in bridge.search.ranking.scores: copies are not nearer than that
_SAME: Final = 1e-6  # what rounding vectors to float32 may take from 1


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """What each value of a vector counts [E]; None: all the same.

    square: the weighed square of every stored vector, whose blocks are all of one length. windows: what windows count
    beside whole episodes, from 0 to 1.
    """

    values: Floats | None = None
    square: float = 1.0
    windows: float = 1.0

    @staticmethod
    def of(numbers: Sequence[float], sizes: Sequence[int]) -> BlockWeights:
        """Return weights from numbers: what windows count, then each block of these sizes; none: all alike."""
        return BlockWeights(np.repeat(numbers[1:], sizes), windows=numbers[0]) if numbers else BlockWeights()

    def weigh(self, vector: Vectors) -> tuple[Vectors, float]:
        """Return the unit vector [E] to search for, and the score that the vector itself has by it."""
        if self.values is None:
            return vector, 1.0
        own = vector.astype(np.float64)
        weighed = own * self.values
        length = float(np.linalg.norm(weighed))
        top = float(np.sqrt((weighed @ own) * self.square)) / length
        return (weighed / length).astype(np.float32), top

    def cosines(self, vectors: Vectors, vector: Vectors) -> Floats:
        """Return the weighed cosines [n] of vectors [n, E] with another one."""
        own = vector.astype(np.float64)
        weighed = own if self.values is None else own * self.values
        square, found = own @ weighed, np.empty(len(vectors))
        some = max(1, _AT_ONCE // len(own))
        for start in range(0, len(vectors), some):
            part = vectors[start : start + some]
            rows = scratch(*part.shape)
            rows[:] = part
            products = rows @ weighed
            rows *= rows
            squares = rows.sum(axis=1) if self.values is None else rows @ self.values
            found[start : start + some] = products / np.sqrt(squares * square)
        return found


def rescale(scores: Floats, top: float) -> Floats:
    """Return scores of a weighed search as cosines: 1 for the vector itself, whatever was rounded."""
    found: Floats = scores / top
    found[found > 1.0 - _SAME] = 1.0
    return found


def measure_weights(sample: NDArray[np.float32], sizes: Sequence[int]) -> list[float]:
    """Return, for BlockWeights.of, what descriptors of these sizes count by a sample of whole episodes [n, E].

    A descriptor that tells behaviours apart has groups: the neighbours of an episode are neighbours of each other. One
    that does not has neighbours by chance. The share of such pairs needs no labels, and no scale: each descriptor is
    besides divided by how far apart episodes are by it in general.
    """
    if len(sizes) < 2 or len(sample) < _FEWEST:
        return []
    parts = np.split(sample.astype(np.float64), np.cumsum(sizes)[:-1], axis=1)
    room = np.empty((2, len(sample), len(sample)))  # for all of them: new memory takes longer than what is done in it
    found = [_measure(part / np.linalg.norm(part, axis=1, keepdims=True), *room) for part in parts]
    groups = np.array([group for group, _ in found])
    relative = groups / max(groups.max(), _NEAREST)
    weights = relative**SHARPNESS / np.array([spread for _, spread in found])
    weights /= weights.mean()
    return [float(relative[0] ** 2), *weights.tolist()]


def _measure(rows: Floats, alike: Floats, ranked: Floats) -> tuple[float, float]:
    """Return the share of pairs of neighbours that are neighbours themselves, and the mean distance of all pairs.

    alike, ranked: room for [n, n] numbers.
    """
    np.matmul(rows, rows.T, out=alike)
    count = len(rows)
    spread = 1.0 - (alike.sum() - np.trace(alike)) / (count * (count - 1))
    np.fill_diagonal(alike, -2.0)
    ranked[:] = alike
    ranked.partition(count - NEIGHBOURS, axis=1)
    near = alike >= ranked[:, count - NEIGHBOURS, None]
    if np.count_nonzero(near) == count * NEIGHBOURS:
        nearest = near.nonzero()[1].reshape(count, NEIGHBOURS)
    else:  # some are equally near: a choice among them takes ten times as long
        nearest = np.argpartition(-alike, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        near[:] = False
        near[np.arange(count)[:, None], nearest] = True
    pairs = near[nearest[:, :, None], nearest[:, None, :]].sum()  # none of an episode with itself
    return float(pairs) / (count * NEIGHBOURS * (NEIGHBOURS - 1)), max(float(spread), _NEAREST)
