"""Find what the channels of a lane are, from their values and names; what the lane declares comes first.

A channel is a number unless its values leave little doubt: taking a number for a flag or a quaternion would spoil what
is computed of it, while the reverse costs little.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from wshard.core.channel_kinds import QUATERNION_SIZE, ChannelKind, KindLane, KindRun, declared_kinds, join_runs
from wshard.core.channel_names import NamedLane, channel_labels
from wshard.core.quality.quaternions import find_quaternions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

MAX_STEPS: Final = 20_000
"""Timesteps from which kinds are found: the first ones."""

_MIN_STEPS: Final = 8  # with fewer, values show nothing
_MIN_COUNTED: Final = 16
_STEPS_PER_LEVEL: Final = 8
_MAX_LEVELS: Final = 16
_NOISE: Final = 2e-3  # of values that are meant to be whole numbers; of two levels twice that, as a share of their gap
_MIN_CHANGES: Final = 3  # between levels other than 0 and 1, or -1 and 1: set-points change once or twice
_EVEN: Final = 0.01  # of an increment
_MIN_EVEN: Final = 0.9  # of the increments are of one size, the others multiples of it: timesteps that are left out
_TURN: Final = 2 * math.pi
_TURN_SLACK: Final = 0.05
_MAX_STEP: Final = math.pi / 2  # of an angle, between two timesteps
_MAX_GAP: Final = 3  # timesteps from a value to the next, between which an angle is followed
_MAX_WRAPPED: Final = 0.2  # of the timesteps: more is noise
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ANGLES: Final = frozenset({"angle", "yaw", "theta", "heading"})
_NO_ANGLES: Final = frozenset(
    {"cos", "sin", "d", "delta", "joint", "motor", "shoulder", "elbow", "wrist", "hip", "knee", "ankle", "waist",
     "torso", "neck", "head", "hand", "finger", "thumb"}
)  # fmt: skip
"""Words before that of an angle: its sine, its change, or a joint, which has limits and does not wrap."""


class DescribedLane(NamedLane, KindLane, Protocol):
    """What a Declaration states of its channels."""

    @property
    def id(self) -> str:
        """The channel id."""


def kinds_of(lane: DescribedLane, values: NDArray[Any]) -> tuple[KindRun, ...]:
    """Return the kinds of the channels of a lane [T, ...]: those that it declares, else those that are found."""
    return declared_kinds(lane) or find_kinds(values, channel_labels(lane) or (lane.id,) * math.prod(lane.shape))


def find_kinds(values: NDArray[Any], names: Sequence[str] = ()) -> tuple[KindRun, ...]:
    """Return the kinds of the channels of [T, C], or of [T, ...], counted flat, as runs of adjacent ones.

    names: of all channels, or none; one that several have is that of all of them together. NaN is no value. Values of
    other types than numbers and flags are numbers.
    """
    steps = len(values)
    rows = values.reshape(steps, math.prod(values.shape[1:]))[:MAX_STEPS]
    channels = rows.shape[1]
    labels = names if len(names) == channels else [""] * channels
    if rows.dtype.kind not in "biuf" or not rows.size:
        return join_runs([KindRun(channels, ChannelKind.NUMBER)] if channels else [])
    with np.errstate(over="ignore", invalid="ignore"):  # numbers near the limits of a float
        columns = rows.T.astype(np.float64, order="C")
        columns[~np.isfinite(columns)] = np.nan
        used = _without_padding(columns)
        groups = _find_groups(used, labels)
        columns = columns if _are_whole(used[~np.isnan(used)]) else used  # flags may end with 0
        is_flag, named = rows.dtype.kind == "b", Counter(labels)
        kinds = [
            ChannelKind.BINARY if is_flag else _kind_of(column, name if named[name] == 1 else "")
            for column, name in zip(columns, labels, strict=True)
        ]
    if rows.dtype.kind == "f" and _are_rounded(columns, kinds):
        kinds = [ChannelKind.NUMBER if kind in _LEVELLED else kind for kind in kinds]
    runs, channel = list[KindRun](), 0
    while channel < channels:
        runs.append(groups.get(channel) or KindRun(1, kinds[channel]))
        channel += runs[-1].channels
    return join_runs(runs)


_LEVELLED: Final = (ChannelKind.DISCRETE, ChannelKind.BINARY)


def _are_rounded(columns: Numbers, kinds: Sequence[ChannelKind]) -> bool:
    """Return whether a sensor rounds: a number of the lane has whole values only, so that few of them show nothing."""
    numbers = [column for column, kind in zip(columns, kinds, strict=True) if kind is ChannelKind.NUMBER]
    return any(_are_whole(known) and np.ptp(known) > 1 for one in numbers if (known := one[~np.isnan(one)]).size)


def _without_padding(columns: Numbers) -> Numbers:
    """Return channels [C, T] without the rows of zeros that end several."""
    used = np.flatnonzero((columns != 0).any(axis=0))
    return columns[:, : used[-1] + 1] if used.size and len(columns) > 1 else columns


def _find_groups(columns: Numbers, names: Sequence[str]) -> dict[int, KindRun]:
    """Return what adjacent channels are together, by the first of them."""
    one_hot = _find_one_hot(columns)
    groups = {start: KindRun(stop - start, ChannelKind.ONE_HOT) for start, stop in one_hot}
    taken = {channel for start, stop in one_hot for channel in range(start, stop)}
    return groups | {
        start: KindRun(QUATERNION_SIZE, kind)
        for start, kind in find_quaternions(columns, names).items()
        if taken.isdisjoint(range(start, start + QUATERNION_SIZE))
    }


def _find_one_hot(columns: Numbers) -> list[tuple[int, int]]:
    """Return the channels [start, stop) of groups in which exactly one is 1, and all others 0, in every row."""
    known = ~np.isnan(columns)
    is_one = np.abs(columns - 1) <= _NOISE
    is_flag = np.all(~known | is_one | (np.abs(columns) <= _NOISE), axis=1) & np.any(known, axis=1)
    found, start = list[tuple[int, int]](), 0
    while start < len(columns):
        stop = _end_of_one_hot(is_one, known, is_flag, start)
        if stop:
            found.append((start, stop))
        start = stop or start + 1
    return found


def _end_of_one_hot(is_one: NDArray[np.bool_], known: NDArray[np.bool_], is_flag: NDArray[np.bool_], start: int) -> int:
    """Return the first channel after the smallest group that begins at `start`, 0 for none."""
    counts, whole = np.zeros(is_one.shape[1], np.int64), np.ones(is_one.shape[1], np.bool_)
    for channel in range(start, len(is_one)):
        counts += is_one[channel]
        whole &= known[channel]
        if not is_flag[channel] or not is_one[start].any() or counts.max() > 1:
            return 0
        if whole.sum() >= _MIN_COUNTED and counts[whole].all():
            return channel + 1 if channel > start else 0
    return 0


def _kind_of(column: Numbers, name: str) -> ChannelKind:
    """Return the kind of a channel [T] by itself."""
    is_known = ~np.isnan(column)
    known = column[is_known]
    if 2 * known.size < column.size:
        return ChannelKind.MISSING
    if known.size < _MIN_STEPS:
        return ChannelKind.NUMBER
    low, high = known.min(), known.max()
    if low == high:
        return ChannelKind.CONSTANT if low else ChannelKind.PADDING
    steps, gaps = np.diff(known), np.diff(np.flatnonzero(is_known))
    if known.size >= _MIN_COUNTED and _is_counter(steps, gaps):
        return ChannelKind.COUNTER
    if levels := _kind_of_levels(known, low, high):
        return levels
    is_turn = _are_words_of_angle(name) and max(-low, high) <= _TURN and high - low <= _TURN + _TURN_SLACK
    return ChannelKind.ANGLE if is_turn or _wraps(known, steps, gaps) else ChannelKind.NUMBER


def _are_whole(known: Numbers) -> bool:
    return bool((np.abs(known - np.round(known)) <= _NOISE).all())


def _kind_of_levels(known: Numbers, low: float, high: float) -> ChannelKind | None:
    """Return the kind of values that are few: two of any size, or whole numbers."""
    is_low, is_high = known <= low + 2 * _NOISE * (high - low), known >= high - 2 * _NOISE * (high - low)
    is_whole, rounded = _are_whole(known), np.round(known)
    if (is_low | is_high).all() and known.size >= 2 * _STEPS_PER_LEVEL:
        is_flag = is_whole and rounded.max() == 1 and rounded.min() in (0, -1)
        return ChannelKind.BINARY if is_flag or np.diff(is_high).sum() >= _MIN_CHANGES else None
    levels = np.unique(rounded).size if is_whole else 0
    is_enough = 2 <= levels <= min(_MAX_LEVELS, known.size // _STEPS_PER_LEVEL)
    return ChannelKind.DISCRETE if is_enough and np.count_nonzero(np.diff(rounded)) >= _MIN_CHANGES else None


def _is_counter(steps: Numbers, gaps: NDArray[np.int64]) -> bool:
    """Return whether values grow, or fall, by one increment per timestep, apart from timesteps that are left out."""
    increment = float(np.median(steps / gaps))
    if not increment:
        return False
    counted = np.round(steps / increment)
    if counted.min() < 1 or np.mean(counted == gaps) < _MIN_EVEN:
        return False
    line = np.cumsum(counted) * (steps.sum() / counted.sum())
    return bool((np.abs(np.cumsum(steps) - line) <= _EVEN * abs(increment)).all())


def _wraps(known: Numbers, steps: Numbers, gaps: NDArray[np.int64]) -> bool:
    """Return whether values within one turn jump by a turn where they leave it, and nowhere else."""
    low, high = known.min(), known.max()
    if not any(low >= end - _TURN_SLACK and high <= end + _TURN + _TURN_SLACK for end in (-math.pi, 0)):
        return False
    sizes, gaps = np.abs(steps)[gaps <= _MAX_GAP], gaps[gaps <= _MAX_GAP]
    is_jump = sizes > math.pi
    largest = sizes[~is_jump].max(initial=0)
    if not 0 < is_jump.sum() <= _MAX_WRAPPED * sizes.size or largest > _MAX_STEP or _are_whole(known):
        return False
    return bool(((np.abs(_TURN - sizes) <= max(1.5 * largest, _TURN_SLACK) * gaps)[is_jump]).all())


def _are_words_of_angle(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and words[-1] in _ANGLES and _NO_ANGLES.isdisjoint(words)
