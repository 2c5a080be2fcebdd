"""Measure the arrays of episodes, as one vector each.

Episodes of one layout and length are measured together, which costs little more than measuring one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.quality.channels import (
    bends,
    center,
    fill_bad,
    longest_run,
    measure_channels,
    measure_invalid,
    stack_channels,
)
from wshard.core.quality.lag import measure_lag
from wshard.core.quality.measure_vector import CLOCK, MAX_ACTING, MAX_SEEN, MeasureLayout
from wshard.core.quality.odd_values import measure_odd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Clock = tuple[NDArray[Any] | None, float]

_GAP = 1.5  # periods between timesteps, above which some are missing
_MIN_STEPS = 8  # with fewer, period and jitter are unreliable
_PARTS: Final = 8  # of an episode, between which a period drifts
_ERRORS: Final = 4.0  # standard errors of a drift that scatter alone rarely exceeds: p = .007 with 8 parts
STILL_SPEED: Final = 0.05  # of the typical speed of the episode
_STRIDE: Final = 4
TYPICAL_QUANTILE: Final = 0.75
_TINY: Final = 1e-9


def measure(
    lanes: Mapping[str, NDArray[Any]], length: int, times: NDArray[Any] | None = None, unit_s: float = 1.0
) -> tuple[MeasureLayout, NDArray[np.float32]]:
    """Return the measures of an episode of `length` timesteps as one vector, and its layout.

    lanes: numbers [T, ...] by block name ("signal/state", "action/ctrl", "reward"); times, unit_s: see _measure_clock.
    """
    flat = {name: lanes[name].reshape(length, -1) for name in sorted(lanes)}
    layout = MeasureLayout(tuple((name, rows.shape[1]) for name, rows in flat.items()))
    columns = np.empty((1, layout.channels, length))
    if flat:
        np.concatenate([rows.T for rows in flat.values()], out=columns[0], casting="unsafe")
    return layout, measure_alike(layout, columns, [(times, unit_s)])[0]


def measure_alike(layout: MeasureLayout, columns: Numbers, clocks: Sequence[Clock]) -> NDArray[np.float32]:
    """Return the measures [N, layout.size] of N episodes of one layout and length.

    columns: the numbers [N, D, T >= 1] of their channels, lane by lane in the order of the layout; clocks: times and
    unit_s of each (see _measure_clock). What is measured of an episode does not depend on the others.
    """
    episodes, _, length = columns.shape
    with np.errstate(over="ignore", invalid="ignore"):  # numbers near the limits of a float have infinite squares
        acted = layout.channel_range("action/")
        raw, (columns, bad) = columns, fill_bad(columns)
        bent = bends(columns, bad) if length > 2 else columns[..., :0]
        _, spread = center(columns)
        observed = layout.channel_range("signal/")
        rated = acted if acted.stop else observed
        episode_measures = np.empty((episodes, 4))
        episode_measures[:, 0] = length
        episode_measures[:, 1], episode_measures[:, 2] = _longest_stall(layout, columns, bad)
        episode_measures[:, 3] = _roughness(bent[:, rated], spread[:, rated], length)
        lag = measure_lag(columns[:, acted][:, :MAX_ACTING], columns[:, observed][:, :MAX_SEEN])
        odd = measure_odd(columns, bad, spread, observed)
        for values in odd.values():  # a reward may come at once
            values[:, layout.channel_range("reward")] = 0.0
        invalid = measure_invalid(raw, acted) if bad.any() else {}
        found = measure_channels(columns, bad, bent, spread) | odd | invalid
        channels = stack_channels(found, columns).reshape(episodes, -1)
        clock = [_measure_clock(times, unit_s) for times, unit_s in clocks]
        return np.concatenate([episode_measures, np.stack(clock), lag, channels], axis=1).astype(np.float32)


def _longest_stall(
    layout: MeasureLayout, columns: Numbers, bad: NDArray[np.bool_]
) -> tuple[Numbers, NDArray[np.int64]]:
    """Return the longest time without motion in any lane as a share of the duration, and its start, [N] each.

    A lane's motion is measured over several timesteps, in its own unit, by its most moving channel. A lane that moves
    no further in several timesteps than in one is noise, and is ignored; so are gaps. Without observations, actions are
    used.
    """
    episodes, _, length = columns.shape
    lane_ranges = layout.lane_ranges("signal/") or [layout.channel_range("action/")]
    starts = [lane_range.start for lane_range in lane_ranges if lane_range.stop > lane_range.start]
    if length <= 2 * _STRIDE or not starts:
        return np.zeros(episodes), np.zeros(episodes, np.int64)
    columns = columns[:, starts[0] : lane_ranges[-1].stop]
    far_paces, near_paces = (_paces(columns, [start - starts[0] for start in starts], steps) for steps in (_STRIDE, 1))
    typical = _typical(far_paces)
    moving = typical > 2 * _typical(near_paces)
    speed = np.where(moving, far_paces / np.where(moving, typical, 1.0), -np.inf).max(axis=1)
    in_gap = np.logical_or.reduce(bad[:, starts[0] : lane_ranges[-1].stop, _STRIDE:], axis=1)
    run, start = longest_run((speed < STILL_SPEED) & moving.any(axis=1) & ~in_gap)
    return run / speed.shape[-1], start


def _paces(columns: Numbers, lanes: Sequence[int], steps: int) -> Numbers:
    """Return how far the channels [N, D, T] of each lane move in `steps` timesteps: [N, L, T - steps]."""
    changes = columns[..., steps:] - columns[..., :-steps]
    changes *= changes
    paces: Numbers = np.sqrt(np.add.reduceat(changes, lanes, axis=1))
    return paces


def _typical(values: Numbers) -> Numbers:
    rank = int(TYPICAL_QUANTILE * (values.shape[-1] - 1))
    return np.partition(values, rank, axis=-1)[..., rank, None]


def _roughness(bent: Numbers, spread: Numbers, length: int) -> Numbers:
    """Return the roughness [N]: second differences in standard deviations, as the mean over channels."""
    moving = spread > _TINY
    if length < 4 or not moving.any():
        return np.full(len(spread), np.nan)
    share = np.where(moving, 2 * bent.sum(axis=-1) / length / np.where(moving, spread, 1.0), 0.0)
    rough: Numbers = share.sum(axis=-1) / np.where(moving.any(axis=-1), moving.sum(axis=-1), np.nan)
    return rough


def _measure_clock(times: NDArray[Any] | None, unit_s: float) -> NDArray[np.float64]:
    """Return the measures in the order of CLOCK; NaN without a clock.

    times: the times of the timesteps [T], in units of unit_s seconds; ticks count as seconds. The shares of missing,
    repeated and backward timesteps are of all timesteps; jitter and drift are of one period.
    """
    if times is None or len(times) < 2:
        return np.full(len(CLOCK), np.nan)
    steps = (times[1:] - times[:-1]).astype(np.float64)
    forward = np.sort(steps[steps > 0])
    period = float(forward[len(forward) // 2]) if len(forward) else 0.0
    gaps = count_missing(steps, period)
    shares = []
    for faulty in (gaps, steps == 0, steps < 0):
        shares += [float(faulty.sum()) / len(times), float(np.argmax(faulty > 0) + 1)]
    regular = steps[(steps > 0) & (steps <= _GAP * period)]
    jitter = drift = 0.0
    if len(regular) >= _MIN_STEPS:
        period = float(regular.mean())
        jitter = float(np.abs(regular - period).mean()) / period
        drift = _measure_drift(regular / period)
    return np.array([*shares, jitter, drift, period * unit_s])


def count_missing(steps: Numbers, period: float) -> Numbers:
    """Return how many timesteps are missing in each step of a clock; what is late by itself leaves a short step."""
    if period <= 0:
        return np.zeros_like(steps)
    short = np.where(steps > 0, np.maximum(period - steps, 0), 0)
    short = np.concatenate([[0], short, [0]])
    late = steps - np.maximum(short[:-2], short[2:])
    missing: Numbers = np.maximum(np.rint(late / period) - 1, 0) * (late > _GAP * period)
    return missing


def _measure_drift(periods: Numbers) -> float:
    """Return by how much the period [T], relative to its mean, changes over all, beyond what its scatter explains."""
    parts = np.array([part.mean() for part in np.array_split(periods, _PARTS)])
    positions = np.arange(_PARTS) - (_PARTS - 1) / 2
    squares = float(positions @ positions)
    slope = float(positions @ parts) / squares
    rest = parts - parts.mean() - slope * positions
    error = float(np.sqrt(float(rest @ rest) / (_PARTS - 2) / squares))
    return max(0.0, abs(slope) - _ERRORS * error) * _PARTS
