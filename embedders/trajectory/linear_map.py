"""A linear map of `blocks` vectors that was fitted to an archive, and its file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from embedders.shard_arrays import digest_arrays, load_arrays, save_arrays
from embedders.trajectory.blocks import Blocks
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    import os

    import numpy as np
    from numpy.typing import NDArray

LARGEST: Final = 4096
"""Channels, and values that a map adds: more are no map of `blocks` vectors, whose size is limited too."""


@dataclass(frozen=True, eq=False)
class LinearMap:
    """What was fitted to episodes of so many channels: x -> (x - center) @ matrix.

    center: float32 [E], the mean of `blocks` vectors. matrix: float32 [E, dim].
    """

    channels: int
    center: NDArray[np.float32]
    matrix: NDArray[np.float32]

    @property
    def dim(self) -> int:
        """The number of values that it adds to a vector."""
        return int(self.matrix.shape[1])

    @cached_property
    def sha256(self) -> str:
        """The sha256 of its numbers, in hex: equal for equal vectors, whatever the path."""
        return digest_arrays(*self._parts())

    def apply(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return [N, dim] of `blocks` vectors [N, E]."""
        applied: NDArray[np.float64] = (vectors - self.center) @ self.matrix
        return applied

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a Shard file atomically. Raises OSError."""
        save_arrays(path, *self._parts())

    def _parts(self) -> tuple[dict[str, int], dict[str, NDArray[np.float32]]]:
        """Return what the arrays are, and the arrays."""
        about = {"blocks": Blocks.version, "channels": self.channels, "dim": self.dim}
        return about, {"center": self.center, "matrix": self.matrix}


def load_linear_map(path: str | os.PathLike[str]) -> LinearMap:
    """Read what `LinearMap.save` wrote. Raises EmbedderError, naming the file, for anything else."""
    about, arrays = load_arrays(path, "the file of `wshard train-embedder --adapted`", _sizes_of)
    return LinearMap(about["channels"], arrays["center"], arrays["matrix"])


def _sizes_of(about: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a file that claims this, if it may."""
    version, channels, dim = about["blocks"], about["channels"], about["dim"]
    if version != Blocks.version:
        raise EmbedderError(f"fitted to version {version} of blocks, here is version {Blocks.version}: fit it again")
    for name, count in (("channels", channels), ("dim", dim)):
        if type(count) is not int or not 1 <= count <= LARGEST:
            raise EmbedderError(f"{name}: expected a whole number of 1 to {LARGEST}, found {count!r}")
    size = Blocks().dim(channels)
    return {"center": (size,), "matrix": (size, dim)}
