"""Find lanes that some episodes give in another unit than most, by their sizes in the catalog."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from embedders.units import RATIOS, Unit

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Mask = NDArray[np.bool_]

_MIN_SHARE: Final = 0.02
_MIN_EPISODES: Final = 4
_NEAR: Final = 0.35
"""Powers of ten by which the medians of both units may differ from the ratio, in size, mean and spread."""
_MIN_GAP: Final = 0.5
_CLEAR_GAP: Final = 1.2
"""Powers of ten between the sizes of both, without any episode: in a channel among others, in one alone."""
_ALIKE: Final = 0.95
_USUAL: Final = 0.5
"""Share of the other channels that are as they were, or in another unit, too: in a robot at rest most are calmer."""


def find_unit(spreads: Sequence[Sequence[float]], without: Collection[int] = ()) -> Unit | None:
    """Return the unit that some episodes give a lane in, by the spread of each episode; None where all have one.

    without: channels that have no other unit. The sizes of a channel fall into two groups with nothing between them,
    and means and spreads differ by the same ratio: idle and moving episodes differ in one of them. Two channels or more
    show the same groups, or a wide gap is in one.
    """
    if len(spreads) < 2 * _MIN_EPISODES:
        return None
    table = np.array(spreads, np.float64).reshape(len(spreads), -1, 4)
    means, stds = table[:, :, 2], table[:, :, 3]
    with np.errstate(divide="ignore"):
        sizes = np.log10(np.stack([np.hypot(means, stds), np.abs(means), stds]))
    sizes[:, :, [*without]] = -np.inf
    found = [(gap, channel, large) for channel, one in enumerate(sizes[0].T) for gap, large in _splits(one)]
    if not found:
        return None
    _, clearest, large = max(found, key=lambda one: one[0])
    shifts = _shifts(sizes, large)
    shift = np.nanmedian(shifts[0, np.abs(shifts[0] - shifts[0, clearest]) <= _NEAR])
    ratio = min(RATIOS, key=lambda ratio: abs(math.log10(ratio) - shift))
    power = math.log10(ratio)
    agreeing = [
        gap
        for gap, channel, other in found
        if np.mean((other == large)[np.isfinite(sizes[0, :, channel])]) >= _ALIKE
        and (np.abs(shifts[:, channel] - power) <= _NEAR).all()
    ]
    if not agreeing or (len(agreeing) == 1 and agreeing[0] < _CLEAR_GAP):
        return None
    is_near = np.abs(shifts[0] - power) <= _NEAR
    if not _are_usual(shifts[:, ~is_near]):
        return None
    channels = np.flatnonzero(is_near)
    middles = [(_median(sizes[0, large, one]) + _median(sizes[0, ~large, one])) / 2 for one in channels.tolist()]
    is_minority = 2 * large.sum() <= len(large)
    return Unit(tuple(channels.tolist()), tuple(10.0**one for one in middles), ratio if is_minority else 1 / ratio)


def _are_usual(shifts: Numbers) -> bool:
    """Return whether most channels [3, n] are as they were or in another unit, by size, mean and spread."""
    known = shifts[:, np.isfinite(shifts).all(axis=0)]
    powers = np.array([0.0, *map(math.log10, RATIOS)])[:, None, None]
    usual = (np.abs(known - powers) <= _NEAR).all(axis=1).any(axis=0)
    return not usual.size or float(usual.mean()) >= _USUAL


def _splits(sizes: Numbers) -> list[tuple[float, Mask]]:
    """Return the widest gap in the finite sizes [N] with enough episodes on either side, and which are above it.

    Nothing where it is too narrow.
    """
    ordered = np.sort(sizes[np.isfinite(sizes)])
    least = max(_MIN_EPISODES, math.ceil(_MIN_SHARE * len(sizes)))
    gaps = np.diff(ordered)[least - 1 : len(ordered) - least]
    if gaps.max(initial=0) < _MIN_GAP:
        return []
    place = int(gaps.argmax()) + least
    return [(float(gaps.max()), sizes >= ordered[place])]


def _shifts(sizes: Numbers, large: Mask) -> Numbers:
    """Return by how much the medians of both groups differ, for all sizes [3, N, D]; NaN where one has none."""
    return np.array([[_median(one[large]) - _median(one[~large]) for one in of.T] for of in sizes])


def _median(values: Numbers) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else math.nan
