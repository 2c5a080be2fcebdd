"""How actions go with the motion of the observations some timesteps before or after.

An arm may answer at once or after several timesteps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.quality.channels import center
from wshard.quality.measure_vector import MAX_LAG

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

_LAGS: Final = 2 * MAX_LAG + 1
_LEAST_OVERLAP: Final = 8
_MOST: Final = 6  # timesteps by which actions may be moved
_INNER: Final = slice(_MOST, _LAGS - _MOST)
_LEAST_AGREEMENT: Final = 0.3  # cosine; actions that do nothing reach 0.25 by chance
_TINY: Final = 1e-9


def measure_lag(actions: Rows, seen: Rows) -> Rows:
    """Return the correlations [N, A * D * 17] of changes of actions [N, A, T] and of the motion in [N, D, T].

    For lags -8..8, innermost. Changes, because actions and motion go on for long: their own correlation would hide the
    moment. A channel that does not move has correlation 0; all are NaN for episodes that are too short.
    """
    episodes, acting, length = actions.shape
    count = length - 2 - 2 * MAX_LAG
    pairs = acting * seen.shape[1]
    if count < _LEAST_OVERLAP or not pairs:
        return np.full((episodes, pairs * _LAGS), np.nan)
    moving = seen[..., 1:] - seen[..., :-1]
    moving = _units(moving[..., 1:] - moving[..., :-1])
    changes = _units(actions[..., 1:] - actions[..., :-1])[..., MAX_LAG : MAX_LAG + count]
    # Rows one longer than those that are read from them: each of the 17 lies one timestep later than the one before.
    laid = np.zeros((episodes, acting, _LAGS, length - 1))
    laid[..., :count] = changes[:, :, None]
    later = laid.reshape(episodes, acting, -1)[..., : _LAGS * (length - 2)].reshape(episodes, acting, _LAGS, length - 2)
    found: Rows = later @ moving.swapaxes(1, 2)[:, None] / count
    return found.swapaxes(2, 3).reshape(episodes, -1)


def _units(columns: Rows) -> Rows:
    """Return channels [..., T] with mean 0 and standard deviation 1, or all 0 where they do not move."""
    apart, spread = center(columns)
    moves = spread > 1e-9 + 1e-6 * np.maximum(columns.max(axis=-1), -columns.min(axis=-1))
    apart *= np.where(moves, 1.0 / np.where(moves, spread, 1.0), 0.0)[..., None]
    return apart


@dataclass(frozen=True, eq=False)
class LagResponse:
    """How actions usually go with motion: the curves [pairs, 17], and how well an episode fits them unmoved."""

    curves: NDArray[np.float64]
    fit: float


def fit_response(pairs: NDArray[np.float32]) -> LagResponse | None:
    """Return the baseline of episodes [N, pairs, 17]; None if they have nothing in common."""
    known = pairs[~np.isnan(pairs).any(axis=(1, 2))].astype(np.float64)
    if not known.size:
        return None
    curves = np.median(known, axis=0)
    fit = _fit(known, curves, 0)
    sizes = np.linalg.norm(known[:, :, _INNER], axis=(1, 2)) * np.linalg.norm(curves[:, _INNER])
    agreement = float(np.median(fit / np.maximum(sizes, _TINY)))
    return LagResponse(curves, float(np.median(fit))) if agreement >= _LEAST_AGREEMENT else None


def best_shift(pairs: NDArray[np.float32], usual: LagResponse) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return by how many timesteps curves [N, pairs, 17] are moved against the usual ones, [N].

    Second: how much better they fit moved so than unmoved, as a share of the best or of the usual fit, whichever is
    larger; 0 where they fit best unmoved, NaN where there are none.
    """
    moved = np.stack(
        [_fit(pairs.astype(np.float64), usual.curves, shift) for shift in range(-_MOST, _MOST + 1)], axis=1
    )
    highest = moved.max(axis=1)
    return moved.argmax(axis=1) - _MOST, (highest - moved[:, _MOST]) / np.maximum(highest, usual.fit)


def _fit(pairs: NDArray[np.float64], curves: NDArray[np.float64], shift: int) -> NDArray[np.float64]:
    part = pairs[:, :, _INNER.start + shift : _INNER.stop + shift]
    fit: NDArray[np.float64] = part.reshape(len(pairs), -1) @ curves[:, _INNER].ravel()
    return fit
