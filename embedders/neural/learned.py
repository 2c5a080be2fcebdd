"""The embedder `learned`: a small temporal encoder trained on an archive (`wshard train-embedder`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from embedders.base import LaneEmbedder
from embedders.neural.network import load_network
from embedders.neural.temporal_encoder import Encoder
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from embedders.canonical_json import JSON
    from embedders.numeric import Rows


@dataclass(frozen=True)
class Learned(LaneEmbedder):
    """z-score, resample along the arc, encode, unit length. weights: the file written by training.

    A stored Space identifies the encoder by the sha256 of its weights, not by its path: pass the embedder to searches.
    """

    name: ClassVar[str] = "learned"

    weights: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.weights, str | os.PathLike):
            raise EmbedderError(f"weights: expected the path of an encoder, found {self.weights!r}")

    @cached_property
    def encoder(self) -> Encoder:
        """The loaded encoder. Raises EmbedderError."""
        return load_network(self.weights, Encoder)

    def parameters(self) -> Mapping[str, JSON]:
        """Return the parameters that affect vectors: the weights, not their path."""
        return {"sha256": self.encoder.sha256}

    def dim(self, channels: int) -> int:
        """Return the size of a vector. Raises EmbedderError unless the encoder was trained on so many channels."""
        trained = self.encoder.shape.channels
        if channels != trained:
            raise EmbedderError(f"{self.weights}: trained on {trained} channels, found windows of {channels}")
        return self.encoder.shape.dim

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the outputs of the encoder for z-scored windows."""
        self.dim(windows[0].shape[1])
        return self.encoder.encode(windows)
