"""Fits a linear map to episodes, without labels: which differences of their vectors tell behaviours apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from embedders.base import unit_rows
from embedders.trajectory.blocks import Blocks
from embedders.trajectory.disturbances import disturb
from embedders.trajectory.linear_map import LinearMap
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from embedders.numeric import Rows

    Floats = NDArray[np.float64]

FEWEST: Final = 64
"""Minimum number of episodes."""

_RIDGE: Final = 0.03  # of the mean variance: differences that no view happened to show are not divided by zero
_SILENT: Final = 1e-12


@dataclass(frozen=True)
class FitOptions:
    """How to fit: by `views` disturbed copies of up to `episodes` episodes; dim: of the fitted descriptor.

    The same seed gives the same result.
    """

    episodes: int = 600
    views: int = 8
    dim: int = 256
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was fitted, and how many of one more disturbed copy of each episode find it first, from 0 to 1.

    found: by the fitted descriptor. found_before: by `blocks`.
    """

    linear_map: LinearMap
    found: float
    found_before: float


def fit(episodes: Sequence[Rows], options: FitOptions, progress: Callable[[], None] = lambda: None) -> Fitted:
    """Fit a map to z-scored episodes [T_i, channels]; progress is called after every view, `options.views` + 1 times.

    Vectors of an episode's disturbed views scatter around their mean. The map divides every direction by that
    scatter, so that what disturbances change counts little; of the directions that remain it keeps the `dim` along
    which episodes differ most. Both are eigenvectors of matrices, so there are no steps and no rates. Raises
    EmbedderError for fewer than FEWEST episodes.
    """
    if len(episodes) < FEWEST:
        raise EmbedderError(f"fitting: expected at least {FEWEST} episodes, found {len(episodes)}")
    channels = episodes[0].shape[1]
    rng = np.random.default_rng(options.seed)
    chosen = [episodes[place] for place in rng.permutation(len(episodes))[: options.episodes].tolist()]

    def describe(rows: list[Rows]) -> Floats:
        vectors = Blocks().describe(rows)
        progress()
        return vectors

    views = [describe([disturb(rows, rng) for rows in chosen]) for _ in range(options.views)]
    plain = Blocks().describe(chosen)
    linear_map = _fit(np.stack([plain, *views]), channels, options.dim)
    asked = describe([disturb(rows, rng) for rows in chosen])
    return Fitted(linear_map, _found(linear_map.apply(asked), linear_map.apply(plain)), _found(asked, plain))


def _fit(vectors: Floats, channels: int, dim: int) -> LinearMap:
    """Return the map that vectors [views, N, E] of disturbed episodes suggest."""
    size = vectors.shape[2]
    means = vectors.mean(axis=0)
    center = means.mean(axis=0)
    apart = (vectors - means).reshape(-1, size)
    within = apart.T @ apart / len(apart)
    ridge = _RIDGE * max(np.trace(within) / size, _SILENT)
    scatter, axes = np.linalg.eigh(within)
    whitened = axes / np.sqrt(np.maximum(scatter, 0.0) + ridge)
    between = (means - center) @ whitened
    _, directions = np.linalg.eigh(between.T @ between)
    matrix = whitened @ directions[:, ::-1][:, :dim]
    return LinearMap(channels, center.astype(np.float32), matrix.astype(np.float32))


def _found(asked: Floats, known: Floats) -> float:
    """Return the share of the rows whose nearest by the cosine is the row of the same number."""
    similar = unit_rows(asked) @ unit_rows(known).T
    return float((similar.argmax(axis=1) == np.arange(len(similar))).mean())
