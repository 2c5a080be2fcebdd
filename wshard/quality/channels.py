"""Measures of every channel: invalid numbers, constant values, saturation, jumps, phases.

Every measure is a share of the duration or a ratio, so that none grows with the length of an episode. The time axis of
channels is the last one, [..., T], for any number of episodes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wshard.quality.measure_vector import CHANNEL, PHASES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


def fill_bad(columns: Numbers) -> tuple[Numbers, Numbers]:
    """Return channels [..., T] with invalid numbers replaced by the previous value, and where they were.

    The second array [..., 2] has the share of such values, and the first timestep.
    """
    bad = ~np.isfinite(columns)
    if not bad.any():
        return columns, np.zeros((*columns.shape[:-1], 2))
    last = np.maximum.accumulate(np.where(bad, -1, np.arange(columns.shape[-1])), axis=-1)
    first = np.argmax(~bad, axis=-1)[..., None]  # what begins with none takes the first value there is
    filled = np.take_along_axis(columns, np.where(last < 0, first, last), axis=-1)
    where = np.stack([bad.mean(axis=-1), np.argmax(bad, axis=-1)], axis=-1)
    return np.nan_to_num(filled, nan=0.0, posinf=0.0, neginf=0.0), where


def bends(columns: Numbers) -> Numbers:
    """Return the distance of each timestep of channels [..., T >= 3] from the mean of its neighbours: [..., T - 2]."""
    middle = columns[..., 2:] + columns[..., :-2]
    middle *= 0.5
    np.subtract(columns[..., 1:-1], middle, out=middle)
    return np.abs(middle, out=middle)


def center(columns: Numbers) -> tuple[Numbers, Numbers]:
    """Return channels [..., T] less their mean, and their standard deviations [...]."""
    apart = columns - columns.mean(axis=-1, keepdims=True)
    spread: Numbers = np.sqrt(np.vecdot(apart, apart) / columns.shape[-1])
    return apart, spread


def measure_channels(columns: Numbers, bad: Numbers, bent: Numbers, spread: Numbers) -> Numbers:
    """Return the measures [N, measures, D] of channels [N, D, T >= 1], in the order of form.CHANNEL, then the phases.

    bad, bent, spread: results of the functions above; bent is empty for fewer than 3 timesteps.
    """
    episodes, channels, _ = columns.shape
    found = np.zeros((episodes, len(CHANNEL) + PHASES, channels))
    place = {name: number for number, name in enumerate(CHANNEL)}
    found[:, place["bad"]], found[:, place["bad_at"]] = bad[..., 0], bad[..., 1]
    found[:, place["held"]], found[:, place["held_at"]] = _measure_constant(columns)
    found[:, place["railed"]], found[:, place["railed_at"]] = _measure_railed(columns)
    if bent.shape[-1]:
        found[:, place["jump"]], found[:, place["jump_at"]] = bent.max(axis=-1), np.argmax(bent, axis=-1) + 1
    found[:, place["std"]] = spread
    found[:, len(CHANNEL) :] = _phases(columns)
    return found


def longest_run(true: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the length of the longest run of True along the last axis of [..., T], and its start."""
    lengths, starts = (np.zeros(true.shape[:-1], np.int64) for _ in range(2))
    anywhere = true.any(axis=-1)
    if anywhere.any():
        rows = true[anywhere]
        steps = np.arange(rows.shape[-1])
        runs = steps - np.maximum.accumulate(np.where(rows, -1, steps), axis=-1)
        end = np.argmax(runs, axis=-1)
        lengths[anywhere] = runs[np.arange(len(rows)), end]
        starts[anywhere] = end + 1
        starts -= lengths
    return lengths, starts


def _measure_constant(columns: Numbers) -> tuple[Numbers, NDArray[np.int64]]:
    """Return the longest time with a constant value in each channel, as a share of the duration, and its start."""
    run, start = longest_run(columns[..., 1:] == columns[..., :-1])
    return run / max(columns.shape[-1] - 1, 1), start


def _measure_railed(columns: Numbers) -> tuple[Numbers, NDArray[np.int64]]:
    """Return the share of timesteps at the largest or at the smallest value, whichever is more, and the first one."""
    low, high = columns.min(axis=-1), columns.max(axis=-1)
    top, bottom = columns == high[..., None], columns == low[..., None]
    upper, lower = np.count_nonzero(top, axis=-1), np.count_nonzero(bottom, axis=-1)
    first = np.where(upper >= lower, np.argmax(top, axis=-1), np.argmax(bottom, axis=-1))
    return np.where(high > low, np.maximum(upper, lower) / columns.shape[-1], 0.0), first


def _phases(columns: Numbers) -> Numbers:
    edges = np.arange(PHASES + 1) * columns.shape[-1] // PHASES
    counts = np.maximum(edges[1:] - edges[:-1], 1)  # of fewer timesteps than phases, some stand for two
    means: Numbers = np.add.reduceat(columns, edges[:-1], axis=-1) / counts
    return means.swapaxes(-1, -2)
