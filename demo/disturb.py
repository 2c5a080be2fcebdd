"""Disturbed queries: the same motion at another speed, or with a long pause.

Knows: trajectories [T, D]. Does not know: where they come from or what is done with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from wshard.types import Array


def warp(window: Array, seed: int) -> Array:
    """Replay a trajectory at a speed that changes smoothly, over half to twice its length: [T', D]."""
    rng = np.random.default_rng(seed)
    steps = len(window)
    knots = np.exp(0.8 * rng.standard_normal(8))
    speed = np.interp(np.linspace(0, 7, steps), np.arange(8), knots)
    reached = np.concatenate(([0.0], np.cumsum(speed)[:-1]))
    reached *= (steps - 1) / reached[-1]
    length = max(8, int(steps * np.exp(rng.uniform(-0.69, 0.69))))
    places = np.interp(np.linspace(0, steps - 1, length), reached, np.arange(steps))
    return np.stack([np.interp(places, np.arange(steps), column) for column in window.T], axis=1)


def pause(window: Array, seed: int) -> Array:
    """Stand still for 40 % of the length, somewhere between 20 % and 80 % of the way: [1.4 T, D]."""
    rng = np.random.default_rng(seed)
    steps = len(window)
    place = int(rng.integers(int(0.2 * steps), int(0.8 * steps)))
    still = np.repeat(window[place : place + 1], int(0.4 * steps), axis=0)
    return np.concatenate([window[:place], still, window[place:]])
