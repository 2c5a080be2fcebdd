"""The disturbances of benchmark RB-A: what is done to an episode before it asks for its like.

Knows rows [T, D] of raw channels and their spread over the archive. Every disturbance takes its own generator, so that
each query is disturbed in the same way whatever else is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Disturbance = Callable[[Rows, Rows, np.random.Generator], Rows]


def _clean(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001  (all have one signature)
    return rows


def _warp(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001
    steps = len(rows)
    knots = np.exp(0.8 * rng.standard_normal(8))
    speed = np.interp(np.linspace(0, 7, steps), np.arange(8), knots)
    clock = np.concatenate([[0.0], np.cumsum(speed)[:-1]])
    clock *= (steps - 1) / clock[-1]
    count = max(8, int(steps * np.exp(rng.uniform(-0.69, 0.69))))
    places = np.interp(np.linspace(0, steps - 1, count), np.arange(steps), clock)
    return np.stack([np.interp(places, np.arange(steps), column) for column in rows.T], axis=1)


def _noise(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:
    return rows + 0.3 * spread * rng.standard_normal(rows.shape)


def _prefix(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001
    return rows[: max(8, int(0.6 * len(rows)))]


def _stall(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001
    steps = len(rows)
    at = int(rng.integers(int(0.2 * steps), int(0.8 * steps)))
    return np.concatenate([rows[:at], np.repeat(rows[at : at + 1], int(0.4 * steps), axis=0), rows[at:]])


def _offset(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:
    return rows + 0.5 * spread * rng.standard_normal(rows.shape[1])


DISTURBANCES: Final[Mapping[str, Disturbance]] = {
    "clean": _clean,
    "warp": _warp,
    "noise": _noise,
    "prefix60": _prefix,
    "stall40": _stall,
    "offset": _offset,
}
