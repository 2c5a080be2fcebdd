"""How actions go with the motion of the observations some timesteps before or after.

Does not know: which lag is usual; an arm may answer at once or after several timesteps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.quality.form import MOST_LAG

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

_LAGS: Final = 2 * MOST_LAG + 1
_LEAST_OVERLAP: Final = 8


def measure_lag(actions: Rows, seen: Rows) -> Rows:
    """Return the correlations [A * D * 17] of changes of actions [T, A] and of the motion in [T, D], for lags -8..8.

    Changes, because actions and motion go on for long: their own correlation would hide the moment. A channel that
    does not move has correlation 0; all are NaN for an episode that is too short.
    """
    count = len(actions) - 2 - 2 * MOST_LAG
    pairs = actions.shape[1] * seen.shape[1]
    if count < _LEAST_OVERLAP or not pairs:
        return np.full(pairs * _LAGS, np.nan)
    moving = seen[1:] - seen[:-1]
    acting, moving = _units(actions[1:] - actions[:-1]), _units(moving[1:] - moving[:-1])
    shifted = np.concatenate([moving[lag : lag + count] for lag in range(_LAGS)], axis=1)
    found: Rows = acting[MOST_LAG : MOST_LAG + count].T @ shifted / count
    return np.ravel(found.reshape(-1, _LAGS, moving.shape[1]).transpose(0, 2, 1))


def _units(rows: Rows) -> Rows:
    """Return the channels with mean 0 and standard deviation 1, or all 0 where they do not move."""
    apart = rows - rows.sum(axis=0) / len(rows)
    spread = np.sqrt(np.einsum("td,td->d", apart, apart) / len(rows))
    moves = spread > 1e-9 + 1e-6 * np.abs(rows).max(axis=0)
    units: Rows = apart * np.where(moves, 1.0 / np.where(moves, spread, 1.0), 0.0)
    return units


def best_shift(
    pairs: NDArray[np.float32], common: NDArray[np.float32], most: int = MOST_LAG - 2
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return by how many timesteps curves [N, pairs, 17] are moved against the usual ones [pairs, 17], [N] each.

    Second: how much better they fit moved so than unmoved, as a share of the best fit; 0 where they fit best unmoved.
    """
    inner = slice(most, _LAGS - most)
    reference = np.nan_to_num(common[:, inner]).astype(np.float64).ravel()
    moved = [pairs[:, :, inner.start + shift : inner.stop + shift] for shift in range(-most, most + 1)]
    fit = np.stack([part.reshape(len(pairs), -1).astype(np.float64) @ reference for part in moved], axis=1)
    highest = fit.max(axis=1)
    return fit.argmax(axis=1) - most, (highest - fit[:, most]) / np.maximum(highest, 1e-9)
