"""Lanes of numbers as short series for plots: all timesteps if there are few, else the extremes of equal parts."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bridge.episodes.events import is_event_lane
from bridge.spaces.lanes import has_numbers
from wshard.core.channel_names import channel_labels
from wshard.core.episode.file import EpisodeFile
from wshard.core.episode.lanes import is_residual
from wshard.core.episode.residual import unpack_runs
from wshard.errors import LaneError, QueryError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from wshard.core.episode.protocol import EpisodeReader

Floats = NDArray[np.float64]

MAX_CHANNELS: Final = 512
_KINDS: Final = ("signal", "action", "reward")
_MAX_SIGNS: Final = 64  # channels of residuals
_DIGITS: Final = 6  # of the largest value: a plot has fewer pixels


@dataclass(frozen=True)
class Series:
    """A lane over a span: values[i] are those of one channel at the timesteps `steps`, None if not finite.

    channels: the numbers of these channels; of: the number of channels of the lane. names: what they are called, []
    where the lane names none; unit: that of the values, "" where it is not stated.
    """

    lane: str
    steps: list[int]
    channels: list[int]
    values: list[list[float | None]]
    of: int
    names: list[str] = field(default_factory=list)
    unit: str = ""


def order_lanes(file: EpisodeReader, embedded: Collection[str] = ()) -> list[str]:
    """Return the recorded lanes of numbers in the order in which plots choose among them.

    Those that were embedded come first. Then observations come before actions, the reward and others, and wide
    lanes before narrow ones. Clocks, events and lanes of more than MAX_CHANNELS numbers are left out.
    """
    plotted = {name: lane for name, lane in file.lanes().items() if is_plotted(lane.dtype.value, lane.shape)}
    widths = {name: math.prod(lane.shape) for name, lane in plotted.items() if file.has(name)}
    names = [name for name in widths if not (name.startswith("time/") or is_event_lane(file, name))]
    return sorted(names, key=lambda name: (name not in embedded, _rank(name), -widths[name], name))


def is_plotted(dtype: str, shape: Sequence[int]) -> bool:
    """Return whether a lane is plotted: one number, or a vector or matrix of at most MAX_CHANNELS per timestep."""
    return has_numbers(shape, dtype) and math.prod(shape) <= MAX_CHANNELS


def _rank(name: str) -> int:
    kind = name.partition("/")[0]
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def read_series(
    file: EpisodeReader, lane: str, span: tuple[int, int], *, points: int, channels: Sequence[int] | None = None
) -> Series:
    """Return timesteps [start, stop) of a lane, thinned to about `points`; channels: all where none are named.

    Raises EntryNotFoundError for an unknown lane, QueryError for one that is not of numbers, or that has too many.
    """
    view = file.lane_view(lane)
    of = math.prod(view.shape[1:])
    if view.dtype.kind not in "biuf" or of > MAX_CHANNELS:
        what = f"{view.dtype} {list(view.shape[1:])}"
        raise QueryError(f"{lane}: expected a lane of at most {MAX_CHANNELS} numbers per timestep, found {what}")
    selected = (
        [*range(min(of, MAX_CHANNELS))] if channels is None else [channel for channel in channels if 0 <= channel < of]
    )
    start, stop = max(0, span[0]), min(len(view), span[1])
    rows = np.asarray(view[start:stop]).reshape(max(0, stop - start), of)[:, selected].astype(np.float64)
    steps, thinned = thin_rows(rows, points)
    declared, labels = view.declaration, channel_labels(view.declaration)
    names = [labels[channel] for channel in selected] if labels else []
    return Series(declared.block, (steps + start).tolist(), selected, _listed(thinned), of, names, declared.unit)


def thin_rows(rows: Floats, points: int) -> tuple[NDArray[np.int64], Floats]:
    """Return timesteps and values of about `points` of the rows [T, C]: minimum and maximum per channel of equal parts.

    The two extremes of a part are placed at its first and its middle row, in their order in time.
    """
    parts = max(1, points // 2)
    if len(rows) <= max(2, points):
        return np.arange(len(rows)), rows
    bounds = np.linspace(0, len(rows), parts + 1).astype(np.int64)
    steps = np.stack([bounds[:-1], (bounds[:-1] + bounds[1:]) // 2], axis=1).reshape(-1)
    thinned = np.empty((2 * parts, rows.shape[1]))
    filled = np.where(np.isfinite(rows), rows, np.nan)
    for part, (begin, end) in enumerate(itertools.pairwise(bounds)):
        piece = filled[begin:end]
        low, high = np.fmin.reduce(piece), np.fmax.reduce(piece)
        has_values = ~np.isnan(piece).all(axis=0)
        first = np.where(has_values, np.nanargmin(np.where(has_values, piece, 0), axis=0), 0)
        last = np.where(has_values, np.nanargmax(np.where(has_values, piece, 0), axis=0), 0)
        rising = first <= last
        thinned[2 * part] = np.where(rising, low, high)
        thinned[2 * part + 1] = np.where(rising, high, low)
    return steps, thinned


def _listed(rows: Floats) -> list[list[float | None]]:
    """Return a list per channel of rounded numbers, None for what is not finite."""
    listed: list[list[float | None]] = []
    for values in rows.T:
        finite = np.isfinite(values)
        largest = float(np.abs(values[finite]).max(initial=0.0))
        places = _DIGITS - math.ceil(math.log10(largest)) if largest > 0 else 0
        rounded: list[Any] = (np.round(values, places) if -300 < places < 300 else values).tolist()
        listed.append(
            rounded if finite.all() else [one if ok else None for one, ok in zip(rounded, finite, strict=True)]
        )
    return listed


def read_residuals(file: EpisodeReader, span: tuple[int, int], *, points: int) -> list[Series]:
    """Return the signs, -1 or 1, of each residual of a file in timesteps [start, stop), thinned to `points`.

    Residuals whose size does not fit the episode are left out.
    """
    if not isinstance(file, EpisodeFile):
        return []
    start, stop = max(0, span[0]), min(file.length, span[1])
    steps = np.unique(np.linspace(start, max(start, stop - 1), min(points, max(1, stop - start))).astype(np.int64))
    series = []
    for name in filter(is_residual, file.shard.names()):
        try:
            signs = unpack_runs(file.shard.block(name), file.length)
        except LaneError:
            continue
        shown = range(min(_MAX_SIGNS, signs.shape[1]))
        values: list[list[float | None]] = [[float(sign) for sign in signs[steps, channel]] for channel in shown]
        series.append(Series(name, steps.tolist(), [*shown], values, signs.shape[1]))
    return series
