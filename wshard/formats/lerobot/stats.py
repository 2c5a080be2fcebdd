"""Statistics of features, of an episode and of a data set, as LeRobot stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.types import Array

if TYPE_CHECKING:
    from collections.abc import Mapping

QUANTILES: Final = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
SAMPLED_FRAMES: Final = 32
_LEVELS: Final = 256  # of uint8: counting them takes a sixtieth of the time that sorting all pixels takes

Stats = dict[str, Array]

_QUIET: Final = np.errstate(over="ignore", invalid="ignore")  # of infinities and huge numbers, the result says it


def measure_numbers(values: Array, *, keep_shape: bool = False) -> Stats:
    """Return the statistics of [n, *shape]: over all axes but the last, or over the steps alone (keep_shape).

    Of one number per timestep they have one element.
    """
    rows = values.reshape(len(values), -1) if values.ndim == 1 else values
    rows = rows if keep_shape else rows.reshape(-1, rows.shape[-1])
    return _measure(rows, 0) | {"count": np.array([len(values)])}


def measure_frames(frames: Array) -> Stats:
    """Return the statistics of uint8 frames [n, H, W, C] in [0, 1], by channel: [C, 1, 1]."""
    counts = np.zeros((frames.shape[-1], _LEVELS), np.int64)
    for frame in frames:
        counts += [np.bincount(channel, minlength=_LEVELS) for channel in frame.reshape(-1, frame.shape[-1]).T]
    found = {name: value.reshape(-1, 1, 1) / 255.0 for name, value in _measure_counts(counts).items()}
    return found | {"count": np.array([len(frames)])}


def _measure_counts(counts: Array) -> Stats:
    """Return the statistics of values of which each row [C, 256] says how often each is there, equally many per row."""
    values, size = np.arange(_LEVELS), int(counts[0].sum())
    mean = counts @ values / size
    std = np.sqrt((counts * (values - mean[:, None]) ** 2).sum(axis=1) / size)
    reached = counts.cumsum(axis=1)

    def ranked(place: int) -> Any:
        """Return the value at a place of the sorted ones."""
        return (reached <= place).sum(axis=1)

    found = {"min": ranked(0), "max": ranked(size - 1), "mean": mean, "std": std}
    for name, share in QUANTILES.items():
        below = int(share * (size - 1))
        low, high = ranked(below), ranked(min(below + 1, size - 1))
        found[name] = low + (high - low) * (share * (size - 1) - below)
    return found


@_QUIET
def _measure(rows: Array, axis: int) -> Stats:
    wide = rows.astype(np.float64)
    quantiles = np.quantile(wide, list(QUANTILES.values()), axis=axis)
    found = {"min": rows.min(axis), "max": rows.max(axis), "mean": wide.mean(axis), "std": wide.std(axis)}
    return found | dict(zip(QUANTILES, quantiles, strict=True))


@_QUIET
def merge_stats(one: Mapping[str, Any], other: Mapping[str, Any]) -> Stats:
    """Return the statistics of two sets of rows together; quantiles are means, weighted by counts, as LeRobot's are."""
    left, right = ({name: np.asarray(value) for name, value in stats.items()} for stats in (one, other))
    count = left["count"] + right["count"]
    share = right["count"] / count
    step = right["mean"] - left["mean"]
    spread = left["std"] ** 2 * (1 - share) + right["std"] ** 2 * share + step**2 * share * (1 - share)
    found = {
        "min": np.minimum(left["min"], right["min"]),
        "max": np.maximum(left["max"], right["max"]),
        "mean": left["mean"] + step * share,
        "std": np.sqrt(spread),
        "count": count,
    }
    return found | {name: left[name] * (1 - share) + right[name] * share for name in QUANTILES if name in left}
