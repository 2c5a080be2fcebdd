"""Correlate actions with the motion of the observations some timesteps before or after.

An arm may respond at once or after several timesteps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.quality.channels import center
from wshard.core.quality.measure_vector import MAX_LAG

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

_LAGS: Final = 2 * MAX_LAG + 1
_MIN_OVERLAP: Final = 8
_MAX_SHIFT: Final = 6  # timesteps by which actions may be shifted
_INNER_LAGS: Final = slice(_MAX_SHIFT, _LAGS - _MAX_SHIFT)
_MIN_AGREEMENT: Final = 0.3  # cosine; unrelated actions reach 0.25 by chance
_TINY: Final = 1e-9


def measure_lag(actions: Rows, observations: Rows) -> Rows:
    """Return the correlations [N, A * D * 17] of changes of actions [N, A, T] and of the motion in [N, D, T].

    Lags -8..8 are the last axis. Changes are correlated, as actions and motion are smooth: correlating the values
    would hide the lag. A channel that does not move has correlation 0; all are NaN for episodes that are too short.
    """
    episodes, action_count, length = actions.shape
    count = length - 2 - 2 * MAX_LAG
    pairs = action_count * observations.shape[1]
    if count < _MIN_OVERLAP or not pairs:
        return np.full((episodes, pairs * _LAGS), np.nan)
    motion = observations[..., 1:] - observations[..., :-1]
    motion = _standardized(motion[..., 1:] - motion[..., :-1])
    changes = _standardized(actions[..., 1:] - actions[..., :-1])[..., MAX_LAG : MAX_LAG + count]
    # Rows are one longer than those read from them, so that each of the 17 is shifted by one timestep more.
    shifted_rows = np.zeros((episodes, action_count, _LAGS, length - 1))
    shifted_rows[..., :count] = changes[:, :, None]
    shifted = shifted_rows.reshape(episodes, action_count, -1)[..., : _LAGS * (length - 2)]
    shifted = shifted.reshape(episodes, action_count, _LAGS, length - 2)
    correlations: Rows = shifted @ motion.swapaxes(1, 2)[:, None] / count
    return correlations.swapaxes(2, 3).reshape(episodes, -1)


def _standardized(columns: Rows) -> Rows:
    """Return channels [..., T] with mean 0 and standard deviation 1, or all 0 where they do not move."""
    deviations, spread = center(columns)
    moves = spread > 1e-9 + 1e-6 * np.maximum(columns.max(axis=-1), -columns.min(axis=-1))
    deviations *= np.where(moves, 1.0 / np.where(moves, spread, 1.0), 0.0)[..., None]
    return deviations


@dataclass(frozen=True, eq=False)
class LagResponse:
    """How actions usually correlate with motion: curves [pairs, 17], and how well an unshifted episode fits them."""

    curves: NDArray[np.float64]
    fit: float


def fit_response(pairs: NDArray[np.float32]) -> LagResponse | None:
    """Return the response of episodes [N, pairs, 17]; None if they do not agree."""
    complete = pairs[~np.isnan(pairs).any(axis=(1, 2))].astype(np.float64)
    if not complete.size:
        return None
    curves = np.median(complete, axis=0)
    fit = _fit(complete, curves, 0)
    sizes = np.linalg.norm(complete[:, :, _INNER_LAGS], axis=(1, 2)) * np.linalg.norm(curves[:, _INNER_LAGS])
    agreement = float(np.median(fit / np.maximum(sizes, _TINY)))
    return LagResponse(curves, float(np.median(fit))) if agreement >= _MIN_AGREEMENT else None


def best_shift(pairs: NDArray[np.float32], usual: LagResponse) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return by how many timesteps curves [N, pairs, 17] are shifted against the usual ones, [N].

    Second: how much better they fit with this shift than without, relative to the best or the usual fit, whichever is
    larger; 0 if they fit best unshifted, NaN without curves.
    """
    fits = np.stack(
        [_fit(pairs.astype(np.float64), usual.curves, shift) for shift in range(-_MAX_SHIFT, _MAX_SHIFT + 1)], axis=1
    )
    best = fits.max(axis=1)
    return fits.argmax(axis=1) - _MAX_SHIFT, (best - fits[:, _MAX_SHIFT]) / np.maximum(best, usual.fit)


def _fit(pairs: NDArray[np.float64], curves: NDArray[np.float64], shift: int) -> NDArray[np.float64]:
    part = pairs[:, :, _INNER_LAGS.start + shift : _INNER_LAGS.stop + shift]
    fit: NDArray[np.float64] = part.reshape(len(pairs), -1) @ curves[:, _INNER_LAGS].ravel()
    return fit
