"""From the arrays of one episode to its vector of measures.

Knows: which lanes are looked at for what. Does not know: files, other episodes, limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.quality.channels import longest_run, measure_channels, mended
from wshard.quality.clock import measure_clock
from wshard.quality.form import MOST_ACTING, MOST_SEEN, Form
from wshard.quality.lag import measure_lag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

_STILL: Final = 0.05  # of the speed that is typical of the episode
_STRIDE: Final = 4
_TYPICAL: Final = 0.75
_TINY: Final = 1e-9


def measure(
    lanes: Mapping[str, NDArray[Any]], length: int, times: NDArray[Any] | None = None, unit_s: float = 1.0
) -> tuple[Form, NDArray[np.float32]]:
    """Return the measures of an episode of `length` timesteps as one vector, and its form.

    lanes: numbers [T, ...] by block name ("signal/state", "action/ctrl", "reward"); times, unit_s: see measure_clock.
    """
    names = sorted(lanes)
    flat = [lanes[name].reshape(length, -1) for name in names]
    form = Form(tuple((name, rows.shape[1]) for name, rows in zip(names, flat, strict=True)))
    with np.errstate(over="ignore", invalid="ignore"):  # numbers near the limits of a float have infinite squares
        together = np.concatenate([rows.astype(np.float64) for rows in flat] or [np.zeros((length, 0))], axis=1)
        rows, bad = mended(together)
        edges = np.cumsum([0, *(count for _, count in form.lanes)])
        by_lane = {name: rows[:, a:b] for name, a, b in zip(names, edges[:-1], edges[1:], strict=True)}
        seen, acted = _beside(by_lane, "signal/", length), _beside(by_lane, "action/", length)
        looked = [part for name, part in by_lane.items() if name.startswith("signal/")]
        whole = [length, *_still(looked or [acted]), _rough(acted if acted.shape[1] else seen)]
        lag = measure_lag(acted[:, :MOST_ACTING], seen[:, :MOST_SEEN])
        parts = [np.array(whole), measure_clock(times, unit_s), lag, measure_channels(rows, bad).ravel()]
        return form, np.concatenate(parts).astype(np.float32)


def _beside(lanes: Mapping[str, Rows], prefix: str, length: int) -> Rows:
    found = [part for name, part in lanes.items() if name.startswith(prefix)]
    return found[0] if len(found) == 1 else np.concatenate(found or [np.zeros((length, 0))], axis=1)


def _still(lanes: Sequence[Rows]) -> tuple[float, float]:
    """Return the longest time without motion in any lane as a share of the duration, and when it begins.

    A lane's motion is that over several timesteps, in its own unit: what moves most in it counts most. A lane that
    gets no further in several timesteps than in one is noise, and says nothing.
    """
    speeds = []
    for rows in lanes:
        if len(rows) <= 2 * _STRIDE or not rows.shape[1]:
            continue
        far = _length_of(rows[_STRIDE:] - rows[:-_STRIDE])
        typical = _typical(far)
        if typical > 2 * _typical(_length_of(rows[1:] - rows[:-1])):
            speeds.append(far / typical)
    if not speeds:
        return 0.0, 0.0
    speed = np.max(speeds, axis=0)
    run, start = longest_run((speed < _STILL)[:, None])
    return float(run[0]) / len(speed), float(start[0])


def _length_of(rows: Rows) -> Rows:
    lengths: Rows = np.sqrt(np.einsum("td,td->t", rows, rows))
    return lengths


def _typical(values: Rows) -> float:
    place = int(_TYPICAL * (len(values) - 1))
    return float(np.partition(values, place)[place])


def _rough(rows: Rows) -> float:
    """Return how much the channels tremble: second differences in standard deviations, the mean over channels."""
    if len(rows) < 4:
        return np.nan
    spread = rows.std(axis=0)
    moving = spread > _TINY
    if not moving.any():
        return np.nan
    apart = np.abs(rows[2:] - 2 * rows[1:-1] + rows[:-2]).sum(axis=0) / len(rows)
    return float((apart[moving] / spread[moving]).mean())
