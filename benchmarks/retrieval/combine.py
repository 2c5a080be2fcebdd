"""The embedders `combo` and `combo2` to compare with: several descriptors of a window in one vector."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from embedders.base import LaneEmbedder
from embedders.numeric import check_number
from embedders.trajectory.arc import ArcDct
from embedders.trajectory.pooled import Stats
from embedders.trajectory.spectral import Dct
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from embedders.numeric import Rows

    _Describe = Callable[[list[Rows]], NDArray[np.float64]]

_BLOCKS = ("arcdct", "dct", "stats", "sig2")


@dataclass(frozen=True)
class Combo(LaneEmbedder):
    """z-score, then the blocks `arcdct`, `stats`, `dct` and `sig2` side by side, each multiplied by its weight.

    A block is divided by the square root of its number of values (`sig2`: of its 2 * channels sums), so that equal
    weights give blocks of different sizes equal influence; weight 0 omits a block. Only the whole vector is scaled to
    unit length, so a block in which a window is quiet stays small. The other parameters are those of `ArcDct` and
    `Dct`.
    """

    name: ClassVar[str] = "combo"

    arcdct: float = 1.0
    dct: float = 1.0
    stats: float = 1.0
    sig2: float = 1.0
    length: int = 64
    coefficients: int = 8
    damping: float = 0.0
    epsilon: float = 1e-4
    position: int | None = 3

    def __post_init__(self) -> None:
        for name in (*_BLOCKS, "damping", "epsilon"):
            object.__setattr__(self, name, check_number(getattr(self, name), name))
        weights = {name: getattr(self, name) for name in _BLOCKS}
        if min(weights.values()) < 0 or not any(weights.values()):
            raise EmbedderError(f"weights of blocks: expected numbers >= 0, one of them above 0, found {weights}")
        self._arc()

    def dim(self, channels: int) -> int:
        """Return the total size of the blocks with a weight."""
        sizes = (
            (self.arcdct, self._arc().dim(channels)),
            (self.stats, Stats().dim(channels)),
            (self.dct, self._time().dim(channels)),
            (self.sig2, signature_size(channels)),
        )
        return sum(size for weight, size in sizes if weight)

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: the channel of each value of a vector; an area is shared by its two channels."""
        eye = np.eye(channels)
        first, second = np.triu_indices(channels, k=1)
        blocks = (
            (self.arcdct, self._arc().shares(channels)),
            (self.stats, Stats().shares(channels)),
            (self.dct, self._time().shares(channels)),
            (self.sig2, np.concatenate([eye, eye, (eye[first] + eye[second]) / 2])),
        )
        return np.concatenate([shares for weight, shares in blocks if weight])

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of z-scored windows, before scaling to unit length."""
        channels = windows[0].shape[1]
        blocks: tuple[tuple[float, int, _Describe], ...] = (
            (self.arcdct, self.coefficients * channels, self._arc().describe),
            (self.stats, 4 * channels, Stats().describe),
            (self.dct, self.coefficients * channels, self._time().describe),
            (self.sig2, 2 * channels, _signatures),
        )
        return np.concatenate(
            [weight / sqrt(size) * describe(windows) for weight, size, describe in blocks if weight], axis=1
        )

    def _arc(self) -> ArcDct:
        return ArcDct(self.length, self.coefficients, self.damping, self.epsilon, self.position)

    def _time(self) -> Dct:
        return Dct(self.length, self.coefficients)


@dataclass(frozen=True)
class Combo2(Combo):
    """`Combo` with the weights that work best with query expansion."""

    name: ClassVar[str] = "combo2"

    dct: float = 0.5
    stats: float = 0.5
    sig2: float = 0.0


def _signatures(windows: list[Rows]) -> NDArray[np.float64]:
    return np.stack([signature(rows) for rows in windows])


AREA_WEIGHT = 0.5
"""Weight of the areas relative to the sums, of which there are far fewer."""


def signature_size(channels: int) -> int:
    """Return the number of values of `signature`: 2 * channels, and one area per pair of channels."""
    return 2 * channels + channels * (channels - 1) // 2


def signature(rows: Rows) -> NDArray[np.float64]:
    """Return [signature_size(D)] of z-scored `rows` [T, D]: last row, mean, signed areas between channels.

    The path starts at zero, the archive's mean. The sign of an area shows which channel moves first; its square root
    grows like the path, so that long paths do not dominate.
    """
    steps = np.diff(rows, axis=0, prepend=0.0)
    before = rows - steps  # where each step begins
    ordered = before.T @ steps
    first, second = np.triu_indices(rows.shape[1], k=1)
    areas = (ordered[first, second] - ordered[second, first]) / 2
    rooted = np.sign(areas) * np.sqrt(np.abs(areas))
    return np.concatenate([rows[-1], rows.mean(axis=0), AREA_WEIGHT * rooted])
