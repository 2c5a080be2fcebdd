"""Learn from episodes, without labels, which differences of their vectors tell behaviours apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from embedders.base import unit_rows
from embedders.trajectory.blocks import Blocks
from embedders.trajectory.projection import Projection, input_size
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from embedders.numeric import Rows

    Floats = NDArray[np.float64]

FEWEST: Final = 64
"""Minimum number of episodes for training."""

_RIDGE: Final = 0.03  # of the mean variance: differences that no view happened to show are not divided by zero
_SILENT: Final = 1e-12


@dataclass(frozen=True)
class Training:
    """How to train: by `views` disturbed copies of up to `episodes` episodes; dim: of the learned descriptor.

    The same seed gives the same result.
    """

    episodes: int = 600
    views: int = 8
    dim: int = 256
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Trained:
    """What was learned, and how many of one more disturbed copy of each episode find it first, from 0 to 1.

    found: by the learned descriptor. found_before: by `blocks`.
    """

    projection: Projection
    found: float
    found_before: float


def train(episodes: Sequence[Rows], training: Training, progress: Callable[[], None] = lambda: None) -> Trained:
    """Learn from z-scored episodes [T_i, channels]; progress is called after every view, `training.views` + 1 times.

    Vectors of an episode's disturbed views scatter around their mean. The learned map divides every direction by that
    scatter, so that what disturbances change counts little; of the directions that remain it keeps the `dim` along
    which episodes differ most. Both are eigenvectors of matrices, so there are no steps and no rates. Raises
    EmbedderError for fewer than FEWEST episodes or too many channels.
    """
    if len(episodes) < FEWEST:
        raise EmbedderError(f"training: expected at least {FEWEST} episodes, found {len(episodes)}")
    channels = episodes[0].shape[1]
    input_size(channels)
    rng = np.random.default_rng(training.seed)
    chosen = [episodes[place] for place in rng.permutation(len(episodes))[: training.episodes].tolist()]

    def describe(rows: list[Rows]) -> Floats:
        vectors = Blocks().describe(rows)
        progress()
        return vectors

    views = [describe([disturb(rows, rng) for rows in chosen]) for _ in range(training.views)]
    plain = Blocks().describe(chosen)
    projection = _fit(np.stack([plain, *views]), channels, training.dim)
    asked = describe([disturb(rows, rng) for rows in chosen])
    return Trained(projection, _found(projection.apply(asked), projection.apply(plain)), _found(asked, plain))


def disturb(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return a view of a z-scored episode: other speeds, perhaps a part of it, a stall, noise, an offset."""
    length = len(rows)
    speed = np.interp(np.linspace(0, 7, length), np.arange(8), np.exp(0.6 * rng.normal(size=8)))
    places = np.concatenate([[0.0], np.cumsum(speed[:-1])])
    places *= (length - 1) / max(places[-1], 1e-9)
    if length >= 16 and rng.random() < 0.3:
        size = int(length * rng.uniform(0.6, 1.0))
        begin = int(rng.integers(0, length - size + 1))
        places = places[begin : begin + size]
    if rng.random() < 0.3:
        at = int(rng.integers(0, len(places)))
        places = np.insert(places, at, np.full(int(0.3 * length), places[at]))
    below = places.astype(np.intp).clip(0, length - 1)
    share = (places - below)[:, None]
    view: Rows = rows[below] * (1 - share) + rows[np.minimum(below + 1, length - 1)] * share
    if rng.random() < 0.5:
        view = view + rng.uniform(0, 0.4) * rng.normal(size=view.shape)
    if rng.random() < 0.5:
        view = view + rng.uniform(0, 0.6) * rng.normal(size=(1, view.shape[1]))
    return view


def _fit(vectors: Floats, channels: int, dim: int) -> Projection:
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
    return Projection(channels, center.astype(np.float32), matrix.astype(np.float32))


def _found(asked: Floats, known: Floats) -> float:
    """Return the share of the rows whose nearest by the cosine is the row of the same number."""
    similar = unit_rows(asked) @ unit_rows(known).T
    return float((similar.argmax(axis=1) == np.arange(len(similar))).mean())
