"""The embedder `arcdct`: the shape of a window's path, invariant to speed and pauses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from embedders.base import LaneEmbedder, Vectors
from embedders.numeric import check_number
from embedders.trajectory.folding import MOST_CHANNELS, fold, folded_shares
from embedders.trajectory.resample import arc_resample, joined
from embedders.trajectory.spectral import check_resolution, dct_matrix, spectra
from embedders.window_batches import Cuts, project_cuts
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.canonical_json import JSON
    from embedders.numeric import Rows
    from embedders.space import Statistics


@dataclass(frozen=True)
class ArcDct(LaneEmbedder):
    """z-score, resample to `length` rows along the arc, DCT-II coefficient k times exp(-damping * k), unit length.

    Coefficient 0, the mean along the path, is multiplied by `level`: use less than 1 for sensors that drift.

    The arc length is that of the first `position` channels, or of all channels if None or if there are fewer; every
    timestep adds `epsilon` to it. The layout of vectors is that of `Dct`: dim = coefficients * channels. More than 256
    channels are folded to 256 beforehand, apart from the arc.
    """

    name: ClassVar[str] = "arcdct"

    length: int = 64
    coefficients: int = 8
    damping: float = 0.15
    epsilon: float = 1e-4
    position: int | None = 3
    level: float = 1.0

    def __post_init__(self) -> None:
        check_resolution(self.length, self.coefficients)
        object.__setattr__(self, "damping", check_number(self.damping, "damping"))
        object.__setattr__(self, "epsilon", check_number(self.epsilon, "epsilon"))
        object.__setattr__(self, "level", check_number(self.level, "level"))
        if self.damping < 0 or self.epsilon <= 0 or self.level < 0:
            found = f"{self.damping}, {self.epsilon} and {self.level}"
            raise EmbedderError(
                f"damping, epsilon, level: expected damping >= 0, epsilon > 0, level >= 0, found {found}"
            )
        if self.position is not None and not (type(self.position) is int and self.position >= 1):
            raise EmbedderError(f"position: expected None or a whole number >= 1, found {self.position!r}")

    def parameters(self) -> Mapping[str, JSON]:
        """Return the constructor parameters, without `level` if it is unset, for compatibility with earlier Spaces."""
        given = dict(super().parameters())
        if self.level == 1.0:
            del given["level"]
        return given

    def dim(self, channels: int) -> int:
        """Return coefficients * channels, of at most 256 channels."""
        return self.coefficients * min(channels, MOST_CHANNELS)

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: the channel of each value of a vector, or those that were folded into it."""
        return np.tile(folded_shares([np.arange(channels)], channels, MOST_CHANNELS), (self.coefficients, 1))

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, dim], one unit row per window [T_i, D]. Raises EmbedderError."""
        if isinstance(windows, Cuts) and windows and statistics is not None:
            return project_cuts(windows, statistics, self._describe)
        return super().embed(windows, statistics)

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of z-scored windows, before scaling to unit length."""
        return self._describe(*joined(windows))

    def _describe(self, rows: Rows, spans: NDArray[np.int64]) -> NDArray[np.float64]:
        path, rows = rows[:, : self.position], fold(rows, MOST_CHANNELS)
        even = arc_resample(rows, spans, self.length, path=path, epsilon=self.epsilon)
        damped = np.exp(-self.damping * np.arange(self.coefficients))
        damped[0] *= self.level
        return spectra(even, damped[:, None] * dct_matrix(self.length, self.coefficients))
