"""The embedder `learnedframes`: a small network trained on an archive's camera frames (`train-embedder --frames`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from embedders.base import Vectors, unit_rows
from embedders.canonical_json import check_count
from embedders.image.frames import as_rgb, check_values, episodes_of_frames
from embedders.neural.frame_network import FrameNetwork, read_cells
from embedders.neural.network import load_network
from embedders.trajectory.spectral import Dct, check_resolution
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.canonical_json import JSON
    from embedders.space import Statistics

COEFFICIENTS: Final = 4
LENGTH: Final = 64
"""Rows over time."""

_TINY: Final = 1e-300  # divided by instead of 0


@dataclass(frozen=True)
class LearnedFrames:
    """Frames described one by one by the trained network; a window, by the first cosines over time of its features.

    weights: the file written by training. stride: use every n-th frame. dim = coefficients * the size of a feature.

    A stored Space identifies the network by the sha256 of its weights, not by its path: pass the embedder to searches.
    """

    name: ClassVar[str] = "learnedframes"
    version: ClassVar[int] = 1
    uses_statistics: ClassVar[bool] = False
    takes_frames: ClassVar[bool] = True
    metric: ClassVar[str] = "cosine"

    weights: str | os.PathLike[str]
    stride: int = 1
    coefficients: int = COEFFICIENTS

    def __post_init__(self) -> None:
        if not isinstance(self.weights, str | os.PathLike):
            raise EmbedderError(f"weights: expected the path of a network, found {self.weights!r}")
        check_count(self.stride, "stride")
        check_resolution(LENGTH, self.coefficients)

    @cached_property
    def network(self) -> FrameNetwork:
        """The loaded network. Raises EmbedderError."""
        return load_network(self.weights, FrameNetwork)

    def parameters(self) -> Mapping[str, JSON]:
        """Return the parameters that affect vectors: the weights, not their path."""
        return {"sha256": self.network.sha256, "stride": self.stride, "coefficients": self.coefficients}

    def dim(self, channels: int) -> int:  # noqa: ARG002  (the same for frames of every size)
        """Return coefficients * the size of a feature."""
        return self.coefficients * self.network.shape.dim

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, dim], one unit row per window [T_i, height, width] or [T_i, height, width, planes].

        Windows of one call have the same shape; frames of overlapping windows of Cuts are described once. `statistics`
        only determines how many values a frame must have. Raises EmbedderError.
        """
        channels = None if statistics is None else statistics.mean.size
        vectors = [np.empty((0, self.dim(0)), np.float32)]
        for where, frames, spans in episodes_of_frames(windows, channels):
            steps = [np.arange(start, stop, self.stride) for start, stop in spans.tolist()]
            needed = np.unique(np.concatenate(steps))
            features = self._describe(frames, needed.tolist(), where).astype(np.float16)  # as they are stored
            vectors += [self._over_time(features[np.searchsorted(needed, one)]) for one in steps]
        return np.concatenate(vectors)

    @property
    def fingerprint(self) -> str:
        """Of the features of single frames: that of the weights."""
        return f"learnedframes {self.version} {self.network.sha256}"

    def encode_frames(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the features [N, D] of frames [N, H, W, 3]."""
        return self._describe(frames, range(len(frames)), "frames")

    def pool(self, windows: Sequence[NDArray[Any]]) -> Vectors:
        """Return float32 [N, dim] as embed does, for windows of stored features [T_i, 1, D] of frames of bytes."""
        return np.concatenate([self._over_time(features[:: self.stride, 0]) for features in windows])

    def _describe(self, frames: NDArray[Any], steps: Sequence[int], where: str) -> NDArray[np.float32]:
        features = np.empty((len(steps), self.network.shape.dim), np.float32)
        for row, step in enumerate(steps):
            image = frames[step]
            if image.dtype != np.uint8:
                image = image.astype(np.float64)
                check_values(image, f"{where}, timestep {step}")
                image /= max(float(np.abs(image).max()), _TINY)  # scale does not matter, but float32 has an end
            cells = read_cells(as_rgb(image[None])[0], self.network.shape.side)
            features[row] = self.network.describe(cells)
        return features

    def _over_time(self, features: NDArray[np.float16]) -> Vectors:
        """Return [1, dim]."""
        rows = Dct(LENGTH, self.coefficients).describe([features.astype(np.float64)])
        return unit_rows(rows)
