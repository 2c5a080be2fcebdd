"""Disturb trajectories [T, D] for queries: the same motion at another speed, or with a long pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from wshard.types import Array


def warp(window: Array, seed: int) -> Array:
    """Return the trajectory at a smoothly changing speed, with half to twice its length: [T', D]."""
    rng = np.random.default_rng(seed)
    steps = len(window)
    knots = np.exp(0.8 * rng.standard_normal(8))
    speed = np.interp(np.linspace(0, 7, steps), np.arange(8), knots)
    positions = np.concatenate(([0.0], np.cumsum(speed)[:-1]))
    positions *= (steps - 1) / positions[-1]
    length = max(8, int(steps * np.exp(rng.uniform(-0.69, 0.69))))
    samples = np.interp(np.linspace(0, steps - 1, length), positions, np.arange(steps))
    return np.stack([np.interp(samples, np.arange(steps), column) for column in window.T], axis=1)


def pause(window: Array, seed: int) -> Array:
    """Return the trajectory with a pause of 40 % of its length, starting between 20 % and 80 % of it: [1.4 T, D]."""
    rng = np.random.default_rng(seed)
    steps = len(window)
    step = int(rng.integers(int(0.2 * steps), int(0.8 * steps)))
    repeated = np.repeat(window[step : step + 1], int(0.4 * steps), axis=0)
    return np.concatenate([window[:step], repeated, window[step:]])
