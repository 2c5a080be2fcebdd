"""What is measured of every channel: numbers that are none, standstill, rails, jumps, phases.

Every measure is a share of the duration or a ratio, so that none grows with the length of an episode.
Does not know: which values are usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wshard.quality.form import PHASES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


def mended(rows: Rows) -> tuple[Rows, Rows]:
    """Return rows [T, D] with numbers that are none replaced by the value before, and where they were.

    The second array [2, D] has the share of such values, and the first timestep.
    """
    bad = ~np.isfinite(rows)
    if not bad.any():
        return rows, np.zeros((2, rows.shape[1]))
    last = np.maximum.accumulate(np.where(bad, -1, np.arange(len(rows))[:, None]), axis=0)
    first = np.argmax(~bad, axis=0)  # what begins with none takes the first value there is
    held = np.take_along_axis(rows, np.where(last < 0, first, last), axis=0)
    return np.nan_to_num(held, nan=0.0, posinf=0.0, neginf=0.0), np.stack([bad.mean(axis=0), np.argmax(bad, axis=0)])


def measure_channels(rows: Rows, bad: Rows) -> Rows:
    """Return the measures of channels [T, D], T >= 1, in the order of form.CHANNEL and then the phases."""
    parts = [bad, _held(rows), _railed(rows), _jump(rows), rows.std(axis=0)[None], _phases(rows)]
    return np.concatenate(parts)


def longest_run(true: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the length of the longest run of True in each column of [T, D], and where it begins."""
    if not len(true):
        return np.zeros(true.shape[1], np.int64), np.zeros(true.shape[1], np.int64)
    steps = np.arange(len(true))[:, None]
    runs = steps - np.maximum.accumulate(np.where(true, -1, steps), axis=0)
    end = np.argmax(runs, axis=0)
    length = np.take_along_axis(runs, end[None], axis=0)[0]
    return length, end - length + 1


def _held(rows: Rows) -> Rows:
    """Return the longest time that each channel keeps one value, as a share of the duration, and when it begins."""
    run, start = longest_run(rows[1:] == rows[:-1])
    return np.stack([run / max(len(rows) - 1, 1), start])


def _railed(rows: Rows) -> Rows:
    """Return the share of timesteps at the largest or at the smallest value, whichever is more, and the first one."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    top, bottom = rows == high, rows == low
    upper, lower = np.count_nonzero(top, axis=0), np.count_nonzero(bottom, axis=0)
    first = np.argmax(np.where(upper >= lower, top, bottom), axis=0)
    return np.stack([np.where(high > low, np.maximum(upper, lower) / len(rows), 0.0), first])


def _jump(rows: Rows) -> Rows:
    """Return how far the worst timestep lies from the middle of its neighbours."""
    if len(rows) < 3:
        return np.zeros((2, rows.shape[1]))
    apart = np.abs(rows[1:-1] - (rows[2:] + rows[:-2]) / 2)
    at = np.argmax(apart, axis=0)
    return np.stack([apart[at, np.arange(rows.shape[1])], at + 1])


def _phases(rows: Rows) -> Rows:
    edges = np.arange(PHASES + 1) * len(rows) // PHASES
    counts = np.maximum(edges[1:] - edges[:-1], 1)  # of fewer timesteps than phases, some stand for two
    means: Rows = np.add.reduceat(rows, edges[:-1], axis=0) / counts[:, None]
    return means
