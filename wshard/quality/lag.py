"""How actions go with the motion of the observations some timesteps before or after.

Does not know: which lag is usual; an arm may answer at once or after several timesteps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.quality.form import MOST_LAG

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

_LAGS: Final = 2 * MOST_LAG + 1
_LEAST_OVERLAP: Final = 8
_MOST: Final = 6  # timesteps by which actions may be moved
_INNER: Final = slice(_MOST, _LAGS - _MOST)
_LEAST_AGREEMENT: Final = 0.3  # cosine; actions that do nothing reach 0.25 by chance
_TINY: Final = 1e-9


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


@dataclass(frozen=True, eq=False)
class Answer:
    """How actions usually go with motion: the curves [pairs, 17], and how well an episode fits them unmoved."""

    curves: NDArray[np.float64]
    fit: float


def usual_answer(pairs: NDArray[np.float32]) -> Answer | None:
    """Return what is usual among episodes [N, pairs, 17]; None where they have nothing in common."""
    known = pairs[~np.isnan(pairs).any(axis=(1, 2))].astype(np.float64)
    if not known.size:
        return None
    curves = np.median(known, axis=0)
    fit = _fit(known, curves, 0)
    sizes = np.linalg.norm(known[:, :, _INNER], axis=(1, 2)) * np.linalg.norm(curves[:, _INNER])
    agreement = float(np.median(fit / np.maximum(sizes, _TINY)))
    return Answer(curves, float(np.median(fit))) if agreement >= _LEAST_AGREEMENT else None


def best_shift(pairs: NDArray[np.float32], usual: Answer) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
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
