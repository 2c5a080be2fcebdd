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


def measure(
    lanes: Mapping[str, NDArray[Any]], length: int, times: NDArray[Any] | None = None, unit_s: float = 1.0
) -> tuple[Form, NDArray[np.float32]]:
    """Return the measures of an episode as one vector, and its form.

    lanes: numbers [T, ...] by block name ("signal/state", "action/ctrl", "reward"); times, unit_s: see measure_clock.
    """
    names = sorted(lanes)
    rows = {name: mended(lanes[name]) for name in names}
    form = Form(tuple((name, rows[name][0].shape[1]) for name in names))
    seen = _beside(rows, "signal/", length)
    acted = _beside(rows, "action/", length)
    looked = [part for name, (part, _) in rows.items() if name.startswith("signal/")]
    still, still_at = _still(looked or [acted])
    whole = [float(length), still, still_at, _rough(acted if acted.shape[1] else seen)]
    channels = [measure_channels(*rows[name]) for name in names]
    parts = [np.array(whole), measure_clock(times, unit_s), measure_lag(acted[:, :MOST_ACTING], seen[:, :MOST_SEEN])]
    if channels:
        parts.append(np.concatenate(channels, axis=1).ravel())
    with np.errstate(over="ignore"):
        return form, np.concatenate(parts).astype(np.float32)


def _beside(rows: Mapping[str, tuple[Rows, Rows]], prefix: str, length: int) -> Rows:
    found = [part for name, (part, _) in rows.items() if name.startswith(prefix)]
    return np.concatenate(found, axis=1) if found else np.zeros((length, 0))


def _still(lanes: Sequence[Rows]) -> tuple[float, float]:
    """Return the longest time without motion in any lane as a share of the duration, and when it begins.

    A lane's motion is that over several timesteps, in its own unit: what moves most in it counts most. A lane that
    gets no further in several timesteps than in one is noise, and says nothing.
    """
    speeds = []
    for rows in lanes:
        far = np.sqrt(np.square(rows[_STRIDE:] - rows[:-_STRIDE]).sum(axis=1))
        near = np.sqrt(np.square(np.diff(rows, axis=0)).sum(axis=1))
        typical = float(np.quantile(far, 0.75)) if len(far) > _STRIDE else 0.0
        if typical > 2 * float(np.quantile(near, 0.75, method="lower")) if typical else False:
            speeds.append(far / typical)
    if not speeds:
        return 0.0, 0.0
    speed = np.max(speeds, axis=0)
    run, start = longest_run((speed < _STILL)[:, None])
    return float(run[0]) / len(speed), float(start[0])


def _rough(rows: Rows) -> float:
    """Return how much of the motion is trembling: second differences against first ones, the median over channels."""
    if len(rows) < 4:
        return np.nan
    first = np.diff(rows, axis=0)
    size = np.abs(first).mean(axis=0)
    moving = size > 1e-9
    if not moving.any():
        return np.nan
    return float(np.median(np.abs(np.diff(first[:, moving], axis=0)).mean(axis=0) / size[moving]))
