"""The embedder `stats`: mean, standard deviation, first and last row of a window.

The smallest one; knows nothing of what happens in between, and stands up well to calibration offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from embedders.base import Vectors, project

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.finite import Rows
    from embedders.space import JSON, Statistics


@dataclass(frozen=True)
class Stats:
    """z-score, then [mean, population std, first, last] over time, D numbers each, unit length: dim = 4 * channels."""

    name: ClassVar[str] = "stats"
    version: ClassVar[int] = 1
    uses_statistics: ClassVar[bool] = True
    metric: ClassVar[str] = "cosine"

    def parameters(self) -> Mapping[str, JSON]:
        """Return nothing: there is nothing to choose."""
        return {}

    def dim(self, channels: int) -> int:
        """Return 4 * channels."""
        return 4 * channels

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: which channel each value of a vector is of."""
        return np.tile(np.eye(channels), (4, 1))

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, dim], one unit row per window [T_i, D]. Raises EmbedderError."""
        return project(self, windows, statistics, self.describe)

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of z-scored windows, not yet of unit length."""
        return np.stack([np.concatenate([rows.mean(axis=0), rows.std(axis=0), rows[0], rows[-1]]) for rows in windows])
