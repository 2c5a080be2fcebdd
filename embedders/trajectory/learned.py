"""The embedder `learned`: `blocks`, and a descriptor trained on an archive (`wshard train-embedder`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from embedders.base import LaneEmbedder, unit_rows
from embedders.trajectory.blocks import Blocks
from embedders.trajectory.projection import Projection, load_projection
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from embedders.numeric import Rows
    from embedders.space import JSON

_BLOCKS = Blocks()


@dataclass(frozen=True)
class Learned(LaneEmbedder):
    """The descriptors of `blocks` and the learned one, scaled to equal length so that a search can weigh them.

    weights: the file written by training. A stored Space identifies it by its sha256, not by its path: pass the
    embedder to searches. It describes whole episodes; windows beside them get the default embedder.
    """

    name: ClassVar[str] = "learned"
    version: ClassVar[int] = 2
    whole_episodes: ClassVar[bool] = True

    weights: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.weights, str | os.PathLike):
            raise EmbedderError(f"weights: expected the path of a trained embedder, found {self.weights!r}")

    @cached_property
    def projection(self) -> Projection:
        """What was learned. Raises EmbedderError."""
        return load_projection(self.weights)

    def parameters(self) -> Mapping[str, JSON]:
        """Return the parameters that affect vectors: the weights, not their path."""
        return {"sha256": self.projection.sha256}

    def blocks(self, channels: int) -> tuple[int, ...]:
        """Return the sizes of the descriptors. Raises EmbedderError unless it was trained on so many channels."""
        trained = self.projection.channels
        if channels != trained:
            raise EmbedderError(f"{self.weights}: trained on {trained} channels, found windows of {channels}")
        return (*_BLOCKS.blocks(channels), self.projection.dim)

    def dim(self, channels: int) -> int:
        """Return the size of a vector. Raises EmbedderError as `blocks`."""
        return sum(self.blocks(channels))

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: a learned value is shared by what it is made of, as the squares of the factors."""
        known = _BLOCKS.shares(channels)
        factors = np.square(self.projection.matrix.astype(np.float64)).T @ known
        return np.concatenate([known, factors / factors.sum(axis=1, keepdims=True)])

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of z-scored windows, each descriptor of the same length."""
        *own, _ = self.blocks(windows[0].shape[1])
        vectors = _BLOCKS.describe(windows)
        learned = unit_rows(self.projection.apply(vectors))
        return np.concatenate([vectors * np.sqrt(len(own)), learned], axis=1, dtype=np.float64)
