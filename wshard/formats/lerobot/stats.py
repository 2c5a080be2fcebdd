"""Statistics of features per episode and per data set, as LeRobot stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.types import Array

if TYPE_CHECKING:
    from collections.abc import Mapping

QUANTILES: Final = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
SAMPLED_FRAMES: Final = 32
_GRAY_LEVELS: Final = 256  # of uint8: a histogram takes a sixtieth of the time of sorting all pixels

Stats = dict[str, Array]

_QUIET: Final = np.errstate(over="ignore", invalid="ignore")  # the results are inf or NaN


def measure_numbers(values: Array, *, keep_shape: bool = False) -> Stats:
    """Return the statistics of [n, *shape]: over all axes but the last, or over the steps alone (keep_shape).

    Of one number per timestep they have one element.
    """
    rows = values.reshape(len(values), -1) if values.ndim == 1 else values
    rows = rows if keep_shape else rows.reshape(-1, rows.shape[-1])
    return _measure(rows, 0) | {"count": np.array([len(values)])}


def measure_frames(frames: Array) -> Stats:
    """Return the statistics of uint8 frames [n, H, W, C] in [0, 1], by channel: [C, 1, 1]."""
    counts = np.zeros((frames.shape[-1], _GRAY_LEVELS), np.int64)
    for frame in frames:
        counts += [np.bincount(channel, minlength=_GRAY_LEVELS) for channel in frame.reshape(-1, frame.shape[-1]).T]
    stats = {name: value.reshape(-1, 1, 1) / 255.0 for name, value in _measure_counts(counts).items()}
    return stats | {"count": np.array([len(frames)])}


def _measure_counts(counts: Array) -> Stats:
    """Return the statistics of uint8 values from histograms [C, 256], which have equal sums."""
    values, size = np.arange(_GRAY_LEVELS), int(counts[0].sum())
    mean = counts @ values / size
    std = np.sqrt((counts * (values - mean[:, None]) ** 2).sum(axis=1) / size)
    cumulative = counts.cumsum(axis=1)

    def ranked(rank: int) -> Any:
        """Return the value with this rank, from 0, among the sorted values of each channel."""
        return (cumulative <= rank).sum(axis=1)

    stats = {"min": ranked(0), "max": ranked(size - 1), "mean": mean, "std": std}
    for name, fraction in QUANTILES.items():
        lower = int(fraction * (size - 1))
        low, high = ranked(lower), ranked(min(lower + 1, size - 1))
        stats[name] = low + (high - low) * (fraction * (size - 1) - lower)
    return stats


@_QUIET
def _measure(rows: Array, axis: int) -> Stats:
    wide = rows.astype(np.float64)
    quantiles = np.quantile(wide, list(QUANTILES.values()), axis=axis)
    stats = {"min": rows.min(axis), "max": rows.max(axis), "mean": wide.mean(axis), "std": wide.std(axis)}
    return stats | dict(zip(QUANTILES, quantiles, strict=True))


@_QUIET
def merge_stats(first: Mapping[str, Any], second: Mapping[str, Any]) -> Stats:
    """Return the statistics of two sets of rows together; quantiles are means, weighted by counts, as LeRobot's are."""
    first_stats, second_stats = (
        {name: np.asarray(value) for name, value in stats.items()} for stats in (first, second)
    )
    count = first_stats["count"] + second_stats["count"]
    weight = second_stats["count"] / count
    mean_difference = second_stats["mean"] - first_stats["mean"]
    variance = (
        first_stats["std"] ** 2 * (1 - weight)
        + second_stats["std"] ** 2 * weight
        + mean_difference**2 * weight * (1 - weight)
    )
    merged = {
        "min": np.minimum(first_stats["min"], second_stats["min"]),
        "max": np.maximum(first_stats["max"], second_stats["max"]),
        "mean": first_stats["mean"] + mean_difference * weight,
        "std": np.sqrt(variance),
        "count": count,
    }
    return merged | {
        name: first_stats[name] * (1 - weight) + second_stats[name] * weight
        for name in QUANTILES
        if name in first_stats
    }
