"""The embedder `adapted`: `blocks`, and a descriptor fitted to an archive (`wshard train-embedder --adapted`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from embedders.base import LaneEmbedder, unit_rows
from embedders.trajectory.blocks import Blocks
from embedders.trajectory.linear_map import LinearMap, load_linear_map
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from embedders.canonical_json import JSON
    from embedders.numeric import Rows

_BLOCKS = Blocks()


@dataclass(frozen=True)
class Adapted(LaneEmbedder):
    """The descriptors of `blocks` and the fitted one, scaled to equal length so that a search can weigh them.

    weights: the file written by fitting. A stored Space identifies it by its sha256, not by its path: pass the
    embedder to searches. It describes whole episodes; windows beside them get the default embedder.
    """

    name: ClassVar[str] = "adapted"
    whole_episodes: ClassVar[bool] = True

    weights: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.weights, str | os.PathLike):
            raise EmbedderError(f"weights: expected the path of a fitted map, found {self.weights!r}")

    @cached_property
    def linear_map(self) -> LinearMap:
        """What was fitted. Raises EmbedderError."""
        return load_linear_map(self.weights)

    def parameters(self) -> Mapping[str, JSON]:
        """Return the parameters that affect vectors: the weights, not their path."""
        return {"sha256": self.linear_map.sha256}

    def blocks(self, channels: int) -> tuple[int, ...]:
        """Return the sizes of the descriptors. Raises EmbedderError unless it was fitted to so many channels."""
        fitted = self.linear_map.channels
        if channels != fitted:
            raise EmbedderError(f"{self.weights}: fitted to {fitted} channels, found windows of {channels}")
        return (*_BLOCKS.blocks(channels), self.linear_map.dim)

    def block_names(self, channels: int) -> tuple[str, ...]:
        """Return the names of the descriptors."""
        return (*_BLOCKS.block_names(channels), "fitted")

    def dim(self, channels: int) -> int:
        """Return the size of a vector. Raises EmbedderError as `blocks`."""
        return sum(self.blocks(channels))

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: a fitted value is shared by what it is made of, as the squares of the factors."""
        known = _BLOCKS.shares(channels)
        factors = np.square(self.linear_map.matrix.astype(np.float64)).T @ known
        return np.concatenate([known, factors / factors.sum(axis=1, keepdims=True)])

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of z-scored windows, each descriptor of the same length."""
        *own, _ = self.blocks(windows[0].shape[1])
        vectors = _BLOCKS.describe(windows)
        fitted = unit_rows(self.linear_map.apply(vectors))
        return np.concatenate([vectors * np.sqrt(len(own)), fitted], axis=1, dtype=np.float64)
