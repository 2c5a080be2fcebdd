"""Embedders of the mean over time: the mean itself, or any callable of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from embedders.base import LaneEmbedder, Vectors, project
from embedders.numeric import first_bad, is_real
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from embedders.canonical_json import JSON
    from embedders.numeric import Rows
    from embedders.space import Statistics


PooledFunction: TypeAlias = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Maps the mean over time, float32 [D], to a vector of real numbers [E]."""


@dataclass(frozen=True)
class Mean(LaneEmbedder):
    """The raw mean over time, unit length: dim = channels. A weak baseline, for comparison with older collections."""

    name: ClassVar[str] = "mean"
    uses_statistics: ClassVar[bool] = False

    def dim(self, channels: int) -> int:
        """Return `channels`."""
        return channels

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: the channel of each value of a vector."""
        return np.eye(channels)

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return the means [N, D]."""
        return _means(windows)


def _qualified_name(fn: PooledFunction) -> str:
    """Return "module:qualified name"; raises EmbedderError for a lambda, as it is not unique."""
    target: Any = fn if hasattr(fn, "__qualname__") else type(fn)
    qualified = f"{target.__module__}:{target.__qualname__}"
    if qualified.endswith("<lambda>"):
        raise EmbedderError(
            f"embedder: expected a function with a name, found {qualified}: its vectors could be mixed with those of "
            f"another lambda; give it a name: PooledCallable(function, name='...', version=1)"
        )
    return qualified


class PooledCallable:
    """Any function of the raw mean over time, its result scaled to unit length.

    `name` and `version` identify the function in stored Spaces: increase the version when the function changes, and
    name a lambda explicitly. The default name is "module:qualified name". Exceptions of the function are passed on.
    """

    uses_statistics: ClassVar[bool] = False
    metric: ClassVar[str] = "cosine"

    def __init__(self, fn: PooledFunction, name: str | None = None, version: int = 1) -> None:
        self._fn = fn
        self.name = _qualified_name(fn) if name is None else name
        self.version = version

    def parameters(self) -> Mapping[str, JSON]:
        """Return only the pooling: the function itself cannot be rebuilt from a stored Space."""
        return {"pooled": "mean"}

    def dim(self, channels: int) -> int:
        """Return the size of the function's result for zeros. Raises EmbedderError like `embed`."""
        return self._call(np.zeros(channels)).size

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, E], one unit row per window [T_i, D].

        Raises EmbedderError for windows that cannot be pooled and for results that are not finite real numbers [E],
        with the same E as the result for zeros.
        """
        return project(self, windows, statistics, self._describe)

    def _describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        size = self.dim(windows[0].shape[1])
        answers = [self._call(mean) for mean in _means(windows)]
        for answer in answers:
            if answer.size != size:
                raise EmbedderError(f"embedder {self.name!r}: expected answers of size {size}, found {answer.size}")
        return np.stack(answers)

    def _call(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        answer = np.asarray(self._fn(mean.astype(np.float32)))
        found = f"{answer.dtype} {answer.shape}"
        if answer.ndim == 1 and answer.size and is_real(answer.dtype):
            vector = answer.astype(np.float64)
            bad = first_bad(vector[None])
            if bad is None:
                return vector
            found = f"{vector[bad[1]]} at place {bad[1]}"
        raise EmbedderError(f"embedder {self.name!r}: expected an answer of finite real numbers [E], found {found}")


def _means(windows: list[Rows]) -> NDArray[np.float64]:
    return np.stack([rows.mean(axis=0) for rows in windows])


@dataclass(frozen=True)
class Stats(LaneEmbedder):
    """z-score, then [mean, population std, first, last] over time, D numbers each, unit length: dim = 4 * channels."""

    name: ClassVar[str] = "stats"

    def dim(self, channels: int) -> int:
        """Return 4 * channels."""
        return 4 * channels

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: the channel of each value of a vector."""
        return np.tile(np.eye(channels), (4, 1))

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of z-scored windows, before scaling to unit length."""
        return np.stack([np.concatenate([rows.mean(axis=0), rows.std(axis=0), rows[0], rows[-1]]) for rows in windows])
