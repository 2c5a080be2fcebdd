"""Find quaternions among channels: four adjacent ones of unit norm, by their values or their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.channel_kinds import QUATERNION_SIZE, ChannelKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_NORM_SLACK: Final = 1e-2
_MIN_SHARE: Final = 0.99  # of the timesteps, with unit norm
_LARGEST: Final = 2.0
_MEAN_SLACK: Final = 0.1
_MIN_STEPS: Final = 16  # where no name says so
_MIN_SPREAD: Final = 2e-2  # of the three smaller components: less is noise, or a constant beside a unit vector
_MAX_SLOPE: Final = 0.5  # of the squared norm by the square of a component: 0 in a quaternion, 1 of an independent one
_COMPONENT: Final = re.compile(r"(.*?)[\W_]*([wxyz])", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"(.*?)[\W_]*[0-9]*")
_WORDS: Final = re.compile(r"quat|orient|rotation|(?<![a-z])(?:rot|ori)(?![a-z0-9])", re.IGNORECASE)
_ORDERS: Final = {"wxyz": ChannelKind.QUATERNION_WXYZ, "xyzw": ChannelKind.QUATERNION_XYZW}


def find_quaternions(columns: Numbers, names: Sequence[str]) -> dict[int, ChannelKind]:
    """Return the first channels of the quaternions in channels [C, T], and what is known of their order.

    Names are believed where the norm is 1. Without them all components must change, and together, so that their squares
    make up for each other: small positions beside a constant 1, or a sine and a cosine beside small numbers, do not.
    """
    found: list[tuple[bool, float, int, ChannelKind]] = []
    for start in _starts(columns):
        named = _named_order(names, start)
        distance = _distance_to_unit(columns[start : start + QUATERNION_SIZE], is_named=named is not None)
        if distance is not None:
            found.append((named is None, distance, start, named or ChannelKind.QUATERNION))
    chosen: dict[int, ChannelKind] = {}
    for _, _, start, kind in sorted(found):  # those with names, then the nearest ones
        if all(abs(start - other) >= QUATERNION_SIZE for other in chosen):
            chosen[start] = kind
    return chosen


def _starts(columns: Numbers) -> Iterator[int]:
    """Yield the first channels of those whose mean squares add up to about 1."""
    known = ~np.isnan(columns)
    squares = np.square(np.clip(columns, -_LARGEST, _LARGEST), where=known, out=np.zeros_like(columns))
    means = squares.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    for start in range(len(columns) - QUATERNION_SIZE + 1):
        if abs(means[start : start + QUATERNION_SIZE].sum() - 1) <= _MEAN_SLACK:
            yield start


def _distance_to_unit(values: Numbers, *, is_named: bool) -> float | None:
    """Return the mean distance of the squared norm of four channels from 1, None for what is no quaternion."""
    values = values[:, ~np.isnan(values).any(axis=0)]
    if values.shape[1] < (1 if is_named else _MIN_STEPS):
        return None
    squared_norm = np.square(values).sum(axis=0)
    if np.mean(np.abs(np.sqrt(squared_norm) - 1) <= _NORM_SLACK) < _MIN_SHARE:
        return None
    is_rotation = is_named or _make_up(values, squared_norm)
    return float(np.abs(squared_norm - 1).mean()) if is_rotation else None


def _make_up(values: Numbers, squared_norm: Numbers) -> bool:
    """Return whether all four channels change and their squares make up for each other."""
    deviations = np.square(values)
    largest = deviations.mean(axis=1).argmax()
    if (np.delete(values.std(axis=1), largest) < _MIN_SPREAD).any():
        return False
    deviations -= deviations.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.vecdot(deviations, deviations))
    if not spread.all():
        return False
    rest = squared_norm - squared_norm.mean()
    slopes = deviations @ rest / spread**2
    return bool((slopes < _MAX_SLOPE).all())


def _named_order(names: Sequence[str], start: int) -> ChannelKind | None:
    """Return the kind that the names of four channels state: "qw", "orientation.x", "quat_0"; None for none."""
    four = names[start : start + QUATERNION_SIZE]
    parts = [match.groups() for name in four if (match := _COMPONENT.fullmatch(name))]
    letters = "".join(letter.lower() for _, letter in parts)
    if len({prefix for prefix, _ in parts}) == 1 and sorted(letters) == sorted("wxyz"):
        return _ORDERS.get(letters, ChannelKind.QUATERNION)
    stems = [stem.group(1) for name in names if (stem := _NUMBERED.fullmatch(name))]
    if len(stems) < len(names) or not names or not _WORDS.search(stems[start]):
        return None
    whole = [place for place, stem in enumerate(stems) if stem == stems[start]]
    return ChannelKind.QUATERNION if whole == [*range(start, start + QUATERNION_SIZE)] else None
