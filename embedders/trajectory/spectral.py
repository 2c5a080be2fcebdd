"""The embedder `dct`: the low frequencies of a window, evenly in time, so that speed matters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from embedders.base import LaneEmbedder
from embedders.trajectory.resample import joined, resample
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.numeric import Rows


@dataclass(frozen=True)
class Dct(LaneEmbedder):
    """z-score, resample to `length` rows in time, first `coefficients` of the DCT-II per channel, unit length.

    A vector holds all channels of coefficient 0, then all of coefficient 1, and so on: dim = coefficients * channels.
    """

    name: ClassVar[str] = "dct"

    length: int = 64
    coefficients: int = 8

    def __post_init__(self) -> None:
        check_resolution(self.length, self.coefficients)

    def dim(self, channels: int) -> int:
        """Return coefficients * channels."""
        return self.coefficients * channels

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: the channel of each value of a vector."""
        return np.tile(np.eye(channels), (self.coefficients, 1))

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of z-scored windows, before scaling to unit length."""
        even = resample(*joined(windows), self.length)
        return spectra(even, dct_matrix(self.length, self.coefficients))


@lru_cache(maxsize=64)
def dct_matrix(length: int, coefficients: int) -> NDArray[np.float64]:
    """Return the first rows of the orthonormal DCT-II: read-only float64 [coefficients, length]."""
    order, place = np.arange(coefficients)[:, None], np.arange(length)[None, :]
    matrix: NDArray[np.float64] = np.sqrt(2 / length) * np.cos(np.pi * (2 * place + 1) * order / (2 * length))
    matrix[0] = np.sqrt(1 / length)
    matrix.flags.writeable = False
    return matrix


def spectra(even: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `basis` [K, L] applied along time to N windows [N, L, D]: [N, K * D], coefficient by coefficient."""
    return (basis @ even).reshape(len(even), -1)


def check_resolution(length: int, coefficients: int) -> None:
    """Raise EmbedderError unless 2 <= length and 1 <= coefficients <= length, both whole numbers."""
    whole = type(length) is int and type(coefficients) is int
    if not (whole and length >= 2 and 1 <= coefficients <= length):
        found = f"{length!r} and {coefficients!r}"
        raise EmbedderError(
            f"length and coefficients: expected whole numbers, 2 <= length >= coefficients >= 1, found {found}"
        )
