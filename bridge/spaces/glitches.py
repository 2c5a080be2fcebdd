"""Recognises episodes with a glitched timestep by their stored statistics, so that they set no scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.standardise import STD_FLOOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Spread = tuple[int, Sequence[float]]

_SAMPLE: Final = 4096  # episodes that determine what is usual
_MIN_EPISODES: Final = 5
_FAR: Final = 20.0
"""Usual standard deviations: an episode whose own, or whose mean, is farther away is not of this scale."""
_PEAK: Final = 4.0
"""Own standard deviations between mean and extreme: above, a few timesteps make up an episode's spread."""
_MAX_SHARE: Final = 0.1
"""Share of episodes that can be glitched; if more are so, this is how the lane is recorded."""
_MAD: Final = 1.4826  # standard deviations of a normal distribution in a median absolute deviation


@dataclass(frozen=True, eq=False)
class Usual:
    """Median and robust deviation of the numbers of episodes, [D] each; `allowed`: False for no exclusions."""

    center: NDArray[np.float64]
    deviation: NDArray[np.float64]
    allowed: bool = True

    def is_glitched(self, spread: Sequence[float]) -> bool:
        """Return whether a few timesteps put a channel of the episode far beyond what is usual."""
        return self.allowed and bool(self._glitched(np.array(spread, np.float64).reshape(1, -1, 4))[0])

    def _glitched(self, spreads: NDArray[np.float64]) -> NDArray[np.bool_]:
        low, high, mean, std = np.moveaxis(spreads, 2, 0)
        far = np.maximum(std, np.abs(mean - self.center)) > _FAR * self.deviation
        peaked = np.maximum(high - mean, mean - low) > _PEAK * std
        found: NDArray[np.bool_] = (far & peaked & (self.deviation > STD_FLOOR)).any(axis=1)
        return found

    @staticmethod
    def of(parts: Iterable[Spread]) -> Usual:
        """Return what is usual among the (timesteps, flat spread) of episodes, of a sample if there are many."""
        spreads = np.array(sample_spreads(parts), np.float64)
        if len(spreads) < _MIN_EPISODES:
            return Usual(np.zeros(0), np.zeros(0), allowed=False)
        spreads = spreads.reshape(len(spreads), -1, 4)
        means = spreads[:, :, 2]
        center = np.median(means, axis=0)
        between = _MAD * np.median(np.abs(means - center), axis=0)
        usual = Usual(center, np.hypot(np.median(spreads[:, :, 3], axis=0), between))
        allowed = bool(usual._glitched(spreads).mean() <= _MAX_SHARE)
        return Usual(usual.center, usual.deviation, allowed)

    def without_glitched(self, parts: Iterable[Spread]) -> Iterator[Spread]:
        """Yield the parts of the episodes that are not glitched."""
        return (part for part in parts if not self.is_glitched(part[1]))


def sample_spreads(parts: Iterable[Spread]) -> list[Any]:
    """Return the spread of every episode, or of every 2nd, 4th, ... so that their number is limited."""
    chosen: list[Any] = []
    every = 1
    for number, (_, spread) in enumerate(parts):
        if number % every:
            continue
        chosen.append(spread)
        if len(chosen) == 2 * _SAMPLE:
            chosen, every = chosen[::2], 2 * every
    return chosen
