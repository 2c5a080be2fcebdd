"""How actions go with the motion of the observations some timesteps before or after.

Does not know: which lag is usual; an arm may answer at once or after several timesteps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wshard.quality.form import MOST_LAG, Form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

_LEAST_OVERLAP = 8


def measure_lag(actions: Rows, seen: Rows) -> Rows:
    """Return the correlations [A * D * 17] of actions [T, A] with differences of [T, D], lags -8..8 last.

    A channel that does not move has correlation 0; NaN for an episode that is too short.
    """
    count = len(actions) - 1 - 2 * MOST_LAG
    lags = 2 * MOST_LAG + 1
    if count < _LEAST_OVERLAP:
        return np.full(actions.shape[1] * seen.shape[1] * lags, np.nan)
    acting, moving = _units(np.diff(actions, axis=0)), _units(np.diff(seen, n=2, axis=0))
    count = min(len(acting), len(moving)) - 2 * MOST_LAG
    inner = acting[MOST_LAG : MOST_LAG + count]
    windows = np.lib.stride_tricks.sliding_window_view(moving, count, axis=0)[:lags]
    found: Rows = np.einsum("ta,ldt->adl", inner, windows, optimize=True) / count
    return found.ravel()


def _units(rows: Rows) -> Rows:
    """Return the channels with mean 0 and standard deviation 1, or all 0 where they do not move."""
    apart = rows - rows.mean(axis=0)
    spread = apart.std(axis=0)
    moves = spread > 1e-9 + 1e-6 * np.abs(rows).max(axis=0, initial=0.0)
    units: Rows = np.where(moves, apart / np.where(moves, spread, 1.0), 0.0)
    return units
