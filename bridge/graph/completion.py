"""Vectors of episodes that lack lanes, predicted from those of the lanes that they have.

Episodes that have all lanes show what some lanes say about the others: a linear map (ridge regression) from vectors of
these lanes to those of all. Where it predicts little of episodes that it was not fitted on, as of lanes of noise, there
is none.
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

_RANK: Final = 64  # directions in which vectors of fewer lanes differ most
_PENALTY: Final = 5e-4  # for each episode
_LEAST_KNOWN: Final = 0.25  # share of what episodes differ from their mean that is predicted
_TINY: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Completion:
    """Predicts vectors [E] from those [F] in `source`, of fewer lanes, by directions [F, r] and maps [r, E]."""

    source: Space
    source_mean: Vectors
    directions: Vectors
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
        first, second = fewer.mean(axis=0), whole.mean(axis=0)
        centered = (fewer - first).astype(np.float64)
        squares, sides = np.linalg.eigh(centered @ centered.T)
        squares, sides = squares[-_RANK:], sides[:, -_RANK:]
        maps = sides.T @ (whole - second) / (squares + _PENALTY * len(fewer))[:, None]
        return Completion(source, first, (centered.T @ sides).astype(np.float32), maps.astype(np.float32), second)

    @property
    def arrays(self) -> list[Vectors]:
        """All that it is of, but for the Space."""
        return [self.source_mean, self.directions, self.maps, self.mean]

    def predict(self, fewer: Vectors) -> Vectors:
        """Return the unit vectors [n, E] predicted from vectors [n, F]."""
        predicted = (fewer - self.source_mean) @ self.directions @ self.maps + self.mean
        rows: Vectors = predicted / np.maximum(np.linalg.norm(predicted, axis=1, keepdims=True), _TINY)
        return rows


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
