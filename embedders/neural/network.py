"""Networks: their sizes, their weights, and the files that hold both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from embedders.shard_arrays import digest_arrays, load_arrays, save_arrays
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class NetworkShape:
    """The sizes of a network, whole numbers of 1 to `largest`: a file that claims more is not one of ours."""

    network: ClassVar[str]
    largest: ClassVar[int]

    def __post_init__(self) -> None:
        for name, size in vars(self).items():
            if type(size) is not int or not 1 <= size <= self.largest:
                expected = f"expected a whole number of 1 to {self.largest}"
                raise EmbedderError(f"{name} of {self.network}: {expected}, found {size!r}")

    def arrays(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every array of weights, by name, in the order in which they are applied."""
        raise NotImplementedError


ShapeT = TypeVar("ShapeT", bound=NetworkShape)


@dataclass(frozen=True, eq=False)
class NumpyNetwork(Generic[ShapeT]):
    """A network with its weights, float32 by name, as its shape lists them. file_kind: what its files are."""

    shape_type: ClassVar[type[NetworkShape]]
    file_kind: ClassVar[str]

    shape: ShapeT
    weights: Mapping[str, NDArray[np.float32]]

    @property
    def ordered(self) -> dict[str, NDArray[np.float32]]:
        """The weights in the order in which they are applied."""
        return {name: self.weights[name] for name in self.shape.arrays()}

    @cached_property
    def sha256(self) -> str:
        """The sha256 of shape and weights, in hex: equal for equal vectors, whatever the path."""
        return digest_arrays(vars(self.shape), self.ordered)


NetworkT = TypeVar("NetworkT", bound=NumpyNetwork[Any])


def save_network(network: NumpyNetwork[Any], path: str | os.PathLike[str]) -> None:
    """Write a network to a Shard file atomically. Raises OSError."""
    save_arrays(path, vars(network.shape), network.ordered)


def load_network(path: str | os.PathLike[str], kind: type[NetworkT]) -> NetworkT:
    """Read what `save_network` wrote. Raises EmbedderError, naming the file, for anything else."""
    about, weights = load_arrays(path, kind.file_kind, lambda about: kind.shape_type(**about).arrays())
    return kind(kind.shape_type(**about), weights)
