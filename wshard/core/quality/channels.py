"""Measures of every channel: invalid numbers, constant values, saturation, jumps, phases.

Every measure is a share of the duration or a ratio, so that none grows with the length of an episode. The time axis of
channels is the last one, [..., T], for any number of episodes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.quality.measure_vector import CHANNEL, PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


def fill_bad(columns: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return channels [..., T] with invalid numbers replaced by the previous value, and which of them were invalid."""
    bad = ~np.isfinite(columns)
    if not bad.any():
        return columns, bad
    last_valid = np.maximum.accumulate(np.where(bad, -1, np.arange(columns.shape[-1])), axis=-1)
    first_valid = np.argmax(~bad, axis=-1)[..., None]  # leading invalid numbers are replaced by the first valid one
    filled = np.take_along_axis(columns, np.where(last_valid < 0, first_valid, last_valid), axis=-1)
    return np.nan_to_num(filled, nan=0.0, posinf=0.0, neginf=0.0), bad


def bends(columns: Numbers, bad: NDArray[np.bool_]) -> Numbers:
    """Return the distance of each timestep of channels [..., T >= 3] from the mean of its neighbours: [..., T - 2].

    It is 0 where one of the three numbers was invalid.
    """
    middle = columns[..., 2:] + columns[..., :-2]
    middle *= 0.5
    np.subtract(columns[..., 1:-1], middle, out=middle)
    np.abs(middle, out=middle)
    if bad.any():
        middle[bad[..., 2:] | bad[..., 1:-1] | bad[..., :-2]] = 0.0
    return middle


def center(columns: Numbers) -> tuple[Numbers, Numbers]:
    """Return channels [..., T] less their mean, and their standard deviations [...]."""
    deviations = columns - columns.mean(axis=-1, keepdims=True)
    spread: Numbers = np.sqrt(np.vecdot(deviations, deviations) / columns.shape[-1])
    return deviations, spread


def measure_channels(columns: Numbers, bad: NDArray[np.bool_], bent: Numbers, spread: Numbers) -> dict[str, Numbers]:
    """Return measures [N, D] of channels [N, D, T >= 1] by name.

    bad, bent, spread: results of the functions above; bent is empty for fewer than 3 timesteps.
    """
    found: dict[str, Any] = {"std": spread}
    found["held"], found["held_at"] = _measure_constant(columns, bad)
    found["railed"], found["railed_at"] = _measure_railed(columns, bad)
    if bent.shape[-1]:
        found["jump"], found["jump_at"] = bent.max(axis=-1), np.argmax(bent, axis=-1) + 1
    return found


def stack_channels(found: Mapping[str, Numbers], columns: Numbers) -> Numbers:
    """Return measures of channels [N, D, T] in the order of CHANNEL, 0 without one, then the phases: [N, ..., D]."""
    episodes, channels, _ = columns.shape
    measures = np.zeros((episodes, len(CHANNEL) + PHASES, channels))
    for name, values in found.items():
        measures[:, CHANNEL.index(name)] = values
    measures[:, len(CHANNEL) :] = _phases(columns)
    return measures


def measure_invalid(columns: Numbers, acted: slice) -> dict[str, Numbers]:
    """Return how much of channels [N, D, T] is NaN and infinite, and where that begins.

    acted: the actions; after the last observation nobody acts, and NaN there is no fault.
    """
    is_nan, is_infinite = np.isnan(columns), np.isinf(columns)
    is_nan[:, acted, -1] = False
    found: dict[str, Any] = {}
    for name, mask in (("nan", is_nan), ("infinite", is_infinite)):
        found[name], found[f"{name}_at"] = mask.mean(axis=-1), mask.argmax(axis=-1)
    return found


def longest_run(flags: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the length of the longest run of True along the last axis of [..., T], and its start."""
    lengths, starts = (np.zeros(flags.shape[:-1], np.int64) for _ in range(2))
    has_run = flags.any(axis=-1)
    if has_run.any():
        rows = flags[has_run]
        steps = np.arange(rows.shape[-1])
        runs = steps - np.maximum.accumulate(np.where(rows, -1, steps), axis=-1)
        end = np.argmax(runs, axis=-1)
        lengths[has_run] = runs[np.arange(len(rows)), end]
        starts[has_run] = end + 1
        starts -= lengths
    return lengths, starts


def _measure_constant(columns: Numbers, bad: NDArray[np.bool_]) -> tuple[Numbers, NDArray[np.int64]]:
    """Return the longest time with a constant value in each channel, as a share of the duration, and its start."""
    run, start = longest_run((columns[..., 1:] == columns[..., :-1]) & ~bad[..., 1:])
    return run / max(columns.shape[-1] - 1, 1), start


def _measure_railed(columns: Numbers, bad: NDArray[np.bool_]) -> tuple[Numbers, NDArray[np.int64]]:
    """Return the share of timesteps at the maximum or at the minimum, whichever is larger, and the first of them."""
    low, high = columns.min(axis=-1), columns.max(axis=-1)
    top, bottom = (columns == high[..., None]) & ~bad, (columns == low[..., None]) & ~bad
    upper, lower = np.count_nonzero(top, axis=-1), np.count_nonzero(bottom, axis=-1)
    first = np.where(upper >= lower, np.argmax(top, axis=-1), np.argmax(bottom, axis=-1))
    return np.where(high > low, np.maximum(upper, lower) / columns.shape[-1], 0.0), first


def _phases(columns: Numbers) -> Numbers:
    edges = np.arange(PHASES + 1) * columns.shape[-1] // PHASES
    counts = np.maximum(edges[1:] - edges[:-1], 1)  # with fewer timesteps than phases, some timesteps count twice
    means: Numbers = np.add.reduceat(columns, edges[:-1], axis=-1) / counts
    return means.swapaxes(-1, -2)
