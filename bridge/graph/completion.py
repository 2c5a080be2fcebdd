"""Vectors of episodes that lack lanes, predicted from those of the lanes that they have.

Episodes that have all lanes show what some lanes say about the others: by kernel ridge regression from vectors of these
lanes to those of all. Where it predicts little of episodes that it was not fitted on, as of lanes of noise, there is
none. A prediction is nearer to the mean than what it stands for, and so nearer to everything: it is moved away from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.stored_rows import StoredRows
from embedders.base import unit_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from embedders.space import Space

    Vectors = NDArray[np.float32]
    Ids = NDArray[np.int64]
    Load = Callable[[Space, Ids], StoredRows]

LEAST_SHOWN: Final = 32
"""Fewest episodes that have all lanes."""
MOST_SHOWN: Final = 512
"""Most of them that are used."""

_WIDTH: Final = 4.0  # of the kernel: in mean distances of those vectors
_PENALTY: Final = 5e-4  # for each episode
_LEAST_KNOWN: Final = 0.25  # share of what episodes differ from their mean that is predicted
_MOST_MOVED: Final = 6.0  # times its distance from the mean
_TINY: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Completion:
    """Predicts vectors [E] from those [F] in `source`, of fewer lanes, by how near they are to those shown [n, F].

    maps [n, E]: what each of these adds to the mean [E]. width [1]: the distance at which nearness falls off.
    """

    source: Space
    shown: Vectors
    width: Vectors
    maps: Vectors
    mean: Vectors

    @staticmethod
    def fit(source: Space, fewer: Vectors, whole: Vectors) -> Completion | None:
        """Return what is fitted on vectors [n, F] and [n, E] of the same episodes; None if it predicts too little."""
        shown = Completion._fit(source, fewer[::2], whole[::2])
        known = np.vecdot(shown.predict(fewer[1::2]), whole[1::2]).mean()
        by_mean = float((whole[1::2] @ unit_rows(shown.mean[None].astype(np.float64))[0]).mean())
        if known - by_mean < _LEAST_KNOWN * (1.0 - by_mean):
            return None
        return Completion._fit(source, fewer, whole)

    @staticmethod
    def _fit(source: Space, fewer: Vectors, whole: Vectors) -> Completion:
        mean, distance = whole.mean(axis=0), 1.0 - float((fewer @ fewer.T).mean())
        width = np.array([_WIDTH * max(distance, _TINY)], np.float32)
        near = _measure_nearness(fewer, fewer, width).astype(np.float64)
        near += np.diag(np.full(len(fewer), _PENALTY * len(fewer)))
        return Completion(source, fewer, width, np.linalg.solve(near, whole - mean).astype(np.float32), mean)

    @property
    def arrays(self) -> list[Vectors]:
        """All that it is of, but for the Space."""
        return [self.shown, self.width, self.maps, self.mean]

    def predict(self, fewer: Vectors) -> Vectors:
        """Return the unit vectors [n, E] predicted from vectors [n, F]: as far from the mean as unit vectors are."""
        moves = _measure_nearness(fewer, self.shown, self.width) @ self.maps
        along, square = moves @ self.mean, np.maximum(np.vecdot(moves, moves), _TINY)
        rest = max(1.0 - float(self.mean @ self.mean), 0.0)
        factors = ((np.sqrt(along**2 + square * rest) - along) / square).clip(1.0, _MOST_MOVED)
        predicted = self.mean + factors[:, None] * moves
        rows: Vectors = predicted / np.maximum(np.linalg.norm(predicted, axis=1, keepdims=True), _TINY)
        return rows


def _measure_nearness(vectors: Vectors, others: Vectors, width: Vectors) -> Vectors:
    """Return the nearness [n, m], 1 at most, of unit vectors [n, F] and [m, F]."""
    nearness: Vectors = np.exp(np.minimum(vectors @ others.T - 1.0, 0.0) / width)
    return nearness


def load_completed(load: Load, space: Space, completions: Sequence[Completion], episodes: Ids) -> StoredRows:
    """Return the vectors of episodes in a Space of whole ones, those that are missing predicted where they can be."""
    rows = load(space, episodes)
    for one in completions:
        missing = episodes[~np.isin(episodes, rows.episodes)]
        if not len(missing):
            break
        fewer = load(one.source, missing)
        predicted = one.predict(fewer.vectors.take(fewer.starts[:-1], axis=0))
        rows = rows.join(StoredRows(fewer.episodes, np.arange(len(predicted) + 1), predicted))
    return rows
