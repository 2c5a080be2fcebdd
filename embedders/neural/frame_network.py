"""A small network that describes camera frames, in numpy: three convolutions that halve the sides, and a linear map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from embedders.image.frames import averages
from embedders.neural.network import NetworkShape, NumpyNetwork

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

TAPS: Final = (5, 3, 3)
"""Taps per side of each convolution."""

COLOURS: Final = 3
_MOST_PRODUCTS: Final = 1 << 19  # of numbers at once
_CONSTANT: Final = 1e-6  # frames that vary less, relative to their largest value, vary by rounding only


@dataclass(frozen=True)
class FrameShape(NetworkShape):
    """The sizes of a network: side of its input in pixels, widths of its layers, dim of its features.

    cameras: how many cameras the episodes had that it was trained on, at most.
    """

    network: ClassVar[str] = "a network"
    largest: ClassVar[int] = 512

    side: int = 32
    first: int = 32
    second: int = 64
    third: int = 64
    dim: int = 64
    cameras: int = 1

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the layers."""
        return (self.first, self.second, self.third)

    def arrays(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every array of weights, by name, in the order in which they are applied."""
        arrays: dict[str, tuple[int, ...]] = {}
        before, side = COLOURS, self.side
        for number, (taps, width) in enumerate(zip(TAPS, self.widths, strict=True)):
            arrays |= {f"taps{number}": (taps * taps * before, width), f"bias{number}": (width,)}
            before, side = width, (side + 1) // 2
        return arrays | {"map": (side * side * before, self.dim)}


@dataclass(frozen=True, eq=False)
class FrameNetwork(NumpyNetwork[FrameShape]):
    """A network of these sizes."""

    shape_type: ClassVar[type[NetworkShape]] = FrameShape
    file_kind: ClassVar[str] = "the network that `wshard train-embedder --frames` wrote"

    def describe(self, cells: Floats) -> Floats:
        """Return the feature [dim] of a frame of averages [side, side, 3]: of length 1 and mean 0, or zeros."""
        rows = standardise_frame(cells)
        for number, taps in enumerate(TAPS):
            made = _multiply(_patches(rows, taps), self.weights[f"taps{number}"])
            made += self.weights[f"bias{number}"]
            np.maximum(made, 0.0, out=made)
            side = (len(rows) + 1) // 2
            rows = made.reshape(side, side, -1)
        feature = rows.reshape(-1) @ self.weights["map"]
        feature -= feature.mean()
        return feature / max(float(np.linalg.norm(feature)), 1e-6)


def standardise_frame(cells: Floats) -> Floats:
    """Return averages [side, side, 3] with mean 0 and standard deviation 1: exposure does not matter."""
    centred = cells - cells.mean()
    spread = float(centred.std())
    return centred / spread if spread > _CONSTANT * float(np.abs(cells).max()) else np.zeros_like(centred)


def read_cells(frame: NDArray[np.number], side: int) -> Floats:
    """Return a frame [H, W, 3] as averages [side, side, 3]; of large frames every second, third, ... pixel counts."""
    stride = max(1, min(frame.shape[:2]) // (2 * side))
    image = frame[::stride, ::stride].astype(np.float32)
    height, width, planes = image.shape
    rows = averages(height, side).astype(np.float32) @ image.reshape(height, -1)
    return averages(width, side).astype(np.float32) @ rows.reshape(side, width, planes)


def _multiply(rows: Floats, weights: Floats) -> Floats:
    """Return rows @ weights, by products too small for OpenBLAS to start threads, which wait longer than they work."""
    count = max(1, _MOST_PRODUCTS // weights.size)
    return np.concatenate([rows[start : start + count] @ weights for start in range(0, len(rows), count)])


def _patches(rows: Floats, taps: int) -> Floats:
    """Return [s * s, taps * taps * C] of [S, S, C]: the surroundings of every second pixel, zeros beyond the edges."""
    side, _, planes = rows.shape
    reach = taps // 2
    padded = np.zeros((side + 2 * reach, side + 2 * reach, planes), np.float32)
    padded[reach : reach + side, reach : reach + side] = rows
    around = sliding_window_view(padded, (taps, taps), axis=(0, 1))[::2, ::2]
    return around.transpose(0, 1, 3, 4, 2).reshape(-1, taps * taps * planes)
