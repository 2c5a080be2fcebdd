"""The embedder `learned`: a small temporal encoder trained on an archive (`wshard train-embedder`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from embedders.base import Vectors, project
from embedders.neural.temporal_encoder import Encoder, load_encoder
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from embedders.numeric import Rows
    from embedders.space import JSON, Statistics


@dataclass(frozen=True)
class Learned:
    """z-score, resample along the arc, encode, unit length. weights: the file written by training.

    A stored Space identifies the encoder by the sha256 of its weights, not by its path: pass the embedder to searches.
    """

    name: ClassVar[str] = "learned"
    version: ClassVar[int] = 1
    uses_statistics: ClassVar[bool] = True
    metric: ClassVar[str] = "cosine"

    weights: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.weights, str | os.PathLike):
            raise EmbedderError(f"weights: expected the path of an encoder, found {self.weights!r}")

    @cached_property
    def encoder(self) -> Encoder:
        """The loaded encoder. Raises EmbedderError."""
        return load_encoder(self.weights)

    def parameters(self) -> Mapping[str, JSON]:
        """Return the parameters that affect vectors: the weights, not their path."""
        return {"sha256": self.encoder.sha256}

    def dim(self, channels: int) -> int:
        """Return the size of a vector. Raises EmbedderError unless the encoder was trained on so many channels."""
        trained = self.encoder.shape.channels
        if channels != trained:
            raise EmbedderError(f"{self.weights}: trained on {trained} channels, found windows of {channels}")
        return self.encoder.shape.dim

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, dim], one unit row per window [T_i, D]. Raises EmbedderError."""
        return project(self, windows, statistics, self._describe)

    def _describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        self.dim(windows[0].shape[1])
        return self.encoder.encode(windows)
