"""Resampling of a window to a fixed number of rows, evenly in time or evenly along the path that it travels.

Knows rows [T, D] as float64. Does not know what the channels mean: the caller says which ones span the path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.finite import Rows


def resample(rows: Rows, length: int) -> Rows:
    """Return `length` >= 2 rows of `rows` [T, D], T >= 1, evenly spaced in time; linear in between."""
    return _read_at(rows, np.arange(length) * (len(rows) - 1) / (length - 1))


def arc_resample(rows: Rows, length: int, *, position: slice, epsilon: float) -> Rows:
    """Return `length` >= 2 rows of `rows` [T, D], T >= 1, evenly spaced along the arc of the columns `position`.

    Every step adds `epsilon` > 0 to the arc: a stall has next to no length, and a window that never moves is
    resampled in time. All columns are read at the same places.
    """
    if len(rows) == 1:
        return np.repeat(rows, length, axis=0)
    path = rows[:, position]
    steps = path[1:] - path[:-1]
    arc = np.zeros(len(rows))
    np.cumsum(np.sqrt(np.einsum("td,td->t", steps, steps)) + epsilon, out=arc[1:])
    return _read_at(rows, np.interp(np.arange(length) / (length - 1), arc / arc[-1], np.arange(len(rows))))


def _read_at(rows: Rows, places: NDArray[np.float64]) -> Rows:
    """Read `rows` at fractional row numbers within [0, T-1], linear between neighbours."""
    below = places.astype(np.intp)
    weights = (places - below)[:, None]
    first = rows[below]
    after = rows[np.minimum(below + 1, len(rows) - 1)]
    after -= first
    after *= weights
    after += first
    return after
