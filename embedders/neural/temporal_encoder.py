"""A small temporal encoder: convolutions along the arc length of a window, then a linear map to a vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from embedders.neural.network import NetworkShape, NumpyNetwork
from embedders.trajectory.resample import arc_resample, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from embedders.numeric import Rows

LENGTH: Final = 32  # rows along the arc
SEGMENTS: Final = 8  # of the arc, each averaged by itself: the order of events stays
DILATIONS: Final = (1, 2, 4)
TAPS: Final = 5
_POSITION: Final = slice(3)  # the channels that span the arc, and what every timestep adds to it: as arcdct has them
_EPSILON: Final = 1e-4


@dataclass(frozen=True)
class Shape(NetworkShape):
    """The sizes of an encoder: channels of a window, width of its layers, dim of its vectors."""

    network: ClassVar[str] = "an encoder"
    largest: ClassVar[int] = 4096

    channels: int
    width: int = 64
    dim: int = 128

    def arrays(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every array of weights, by name, in the order in which they are applied."""
        inner = [self.channels] + [self.width] * (len(DILATIONS) - 1)
        arrays: dict[str, tuple[int, ...]] = {f"taps{n}": (TAPS * size, self.width) for n, size in enumerate(inner)}
        arrays |= {f"bias{n}": (self.width,) for n in range(len(DILATIONS))}
        return arrays | {"map": (SEGMENTS * (self.width + self.channels), self.dim)}


@dataclass(frozen=True, eq=False)
class Encoder(NumpyNetwork[Shape]):
    """An encoder of these sizes."""

    shape_type: ClassVar[type[NetworkShape]] = Shape
    file_kind: ClassVar[str] = "the encoder that `wshard train-embedder` wrote"

    def encode(self, windows: Sequence[Rows]) -> NDArray[np.float64]:
        """Return [N, dim] of z-scored windows [T_i, channels], not yet of unit length."""
        rows = along_arc(windows)
        hidden = rows
        for layer, dilation in enumerate(DILATIONS):
            made = neighbours(hidden, dilation) @ self.weights[f"taps{layer}"]
            made += self.weights[f"bias{layer}"]
            np.maximum(made, 0.0, out=made)
            hidden = made if layer == 0 else hidden + made
        both = np.concatenate([hidden, rows], axis=2)
        segments = both.reshape(len(both), SEGMENTS, LENGTH // SEGMENTS, -1).mean(axis=2)
        encoded: NDArray[np.float32] = segments.reshape(len(both), -1) @ self.weights["map"]
        return encoded.astype(np.float64)


def along_arc(windows: Sequence[Rows]) -> NDArray[np.float32]:
    """Return float32 [N, LENGTH, channels]: z-scored windows, resampled evenly along their arcs."""
    rows, spans = joined(windows)
    return arc_resample(rows, spans, LENGTH, path=rows[:, _POSITION], epsilon=_EPSILON).astype(np.float32)


def neighbours(rows: NDArray[np.float32], dilation: int) -> NDArray[np.float32]:
    """Return [N, L, TAPS * C] of [N, L, C]: each row with those around it, `dilation` apart, zeros beyond the ends."""
    reach = TAPS // 2 * dilation
    padded = np.pad(rows, ((0, 0), (reach, reach), (0, 0)))
    length = rows.shape[1]
    return np.concatenate([padded[:, tap * dilation : tap * dilation + length] for tap in range(TAPS)], axis=2)
