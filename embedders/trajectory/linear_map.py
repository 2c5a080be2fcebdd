"""A linear map of `blocks` vectors that was fitted to an archive, and its file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.trajectory.blocks import Blocks
from wshard.container.reader import ShardReader
from wshard.container.writer import ShardWriter
from wshard.errors import EmbedderError, WShardError

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

LARGEST: Final = 4096
"""Values of a `blocks` vector: the map of more would take hundreds of megabytes, and minutes."""

_ABOUT: Final = "about"


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
        digest = hashlib.sha256(self._about())
        for array in (self.center, self.matrix):
            digest.update(array.astype("<f4").tobytes())
        return digest.hexdigest()

    def apply(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return [N, dim] of `blocks` vectors [N, E]."""
        applied: NDArray[np.float64] = (vectors - self.center) @ self.matrix
        return applied

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a Shard file atomically. Raises OSError."""
        with ShardWriter(path) as shard:
            shard.write_entry(_ABOUT, self._about())
            shard.write_entry("center", self.center.astype("<f4").tobytes())
            shard.write_entry("matrix", self.matrix.astype("<f4").tobytes())

    def _about(self) -> bytes:
        about = {"blocks": Blocks.version, "channels": self.channels, "dim": self.dim}
        return json.dumps(about, sort_keys=True).encode()


def load_linear_map(path: str | os.PathLike[str]) -> LinearMap:
    """Read what `LinearMap.save` wrote. Raises EmbedderError, naming the file, for anything else."""
    try:
        with ShardReader(path) as shard:
            about = json.loads(bytes(shard.read_entry(_ABOUT)))
            size, channels, dim = _check_about(about)
            return LinearMap(
                channels, _read(shard, "center", size), _read(shard, "matrix", size * dim).reshape(size, dim)
            )
    except (WShardError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise EmbedderError(f"{path}: expected the file of `wshard train-embedder --adapted`: {error}") from error


def input_size(channels: int) -> int:
    """Return the size of `blocks` vectors of so many channels. Raises EmbedderError for more than LARGEST."""
    size = Blocks().dim(channels)
    if size > LARGEST:
        raise EmbedderError(
            f"adapted: expected channels whose `blocks` vectors have at most {LARGEST} values, found "
            f"{channels} channels with {size}: choose some lanes"
        )
    return size


def _check_about(about: Any) -> tuple[int, int, int]:
    """Return the size of vectors, the channels and the dim that a file claims."""
    version, channels, dim = about["blocks"], about["channels"], about["dim"]
    if version != Blocks.version:
        raise EmbedderError(f"fitted to version {version} of blocks, here is version {Blocks.version}: fit it again")
    for name, count in (("channels", channels), ("dim", dim)):
        if type(count) is not int or not 1 <= count <= LARGEST:
            raise EmbedderError(f"{name}: expected a whole number of 1 to {LARGEST}, found {count!r}")
    return input_size(channels), channels, dim


def _read(shard: ShardReader, name: str, count: int) -> NDArray[np.float32]:
    array = np.frombuffer(shard.read_entry(name), "<f4")
    if array.size != count or not np.isfinite(array).all():
        raise EmbedderError(f"{name}: expected {count} finite numbers, found {array.size}")
    return array.astype(np.float32)
