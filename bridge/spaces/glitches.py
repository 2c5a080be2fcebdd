"""Recognises episodes with a glitched timestep by their stored statistics, so that they set no scale."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from embedders.standardise import STD_FLOOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Spread = tuple[int, Sequence[float]]

_SAMPLE: Final = 4096  # episodes that determine what is usual
_BATCH: Final = 512  # episodes looked at together
_MIN_EPISODES: Final = 5
_FAR: Final = 20.0
"""Usual standard deviations: an episode whose own, or whose mean, is farther away is not of this scale."""
_PEAK: Final = 4.0
"""Own standard deviations between mean and extreme: above, a few timesteps make up an episode's spread."""
_PEAK_OF_ONE: Final = 0.95
"""The same in a short episode, relative to that of an episode in which a single timestep differs from the others."""
_MAX_SHARE: Final = 0.1
"""Share of episodes that can be glitched; if more are so, this is how the lane is recorded."""
_MAD: Final = 1.4826  # standard deviations of a normal distribution in a median absolute deviation


@dataclass(frozen=True, eq=False)
class Usual:
    """Median and robust deviation of the numbers of episodes, [D] each; `allowed`: False for no exclusions."""

    center: NDArray[np.float64]
    deviation: NDArray[np.float64]
    allowed: bool = True

    def _are_glitched(self, counts: NDArray[np.int64], spreads: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return in which episodes, of so many timesteps, a few of these put a channel far beyond what is usual."""
        low, high, mean, std = np.moveaxis(spreads, 2, 0)
        far = np.maximum(std, np.abs(mean - self.center)) > _FAR * self.deviation
        peak = np.minimum(_PEAK, _PEAK_OF_ONE * np.sqrt(counts - 1))[:, None]
        peaked = np.maximum(high - mean, mean - low) > peak * std
        found: NDArray[np.bool_] = (far & peaked & (self.deviation > STD_FLOOR)).any(axis=1)
        return found

    @staticmethod
    def of(parts: Iterable[Spread]) -> Usual:
        """Return what is usual among the (timesteps, flat spread) of episodes, of a sample if there are many."""
        sampled = sample_parts(parts)
        if len(sampled) < _MIN_EPISODES:
            return Usual(np.zeros(0), np.zeros(0), allowed=False)
        counts, spreads = _columns(sampled)
        means = spreads[:, :, 2]
        center = np.median(means, axis=0)
        between = _MAD * np.median(np.abs(means - center), axis=0)
        usual = Usual(center, np.hypot(np.median(spreads[:, :, 3], axis=0), between))
        allowed = bool(usual._are_glitched(counts, spreads).mean() <= _MAX_SHARE)
        return Usual(usual.center, usual.deviation, allowed)

    def without_glitched(self, parts: Iterable[Spread]) -> Iterator[Spread]:
        """Yield the parts of the episodes that are not glitched."""
        stream = iter(parts)
        while some := list(islice(stream, _BATCH)):
            glitched = self._are_glitched(*_columns(some)).tolist() if self.allowed else [False] * len(some)
            yield from (part for part, is_glitched in zip(some, glitched, strict=True) if not is_glitched)


def _columns(parts: Sequence[Spread]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    spreads = np.array([spread for _, spread in parts], np.float64)
    return np.array([count for count, _ in parts]), spreads.reshape(len(parts), -1, 4)


def sample_parts(parts: Iterable[Spread]) -> list[Spread]:
    """Return every part, or every 2nd, 4th, ... so that their number is limited."""
    chosen: list[Spread] = []
    every = 1
    for number, part in enumerate(parts):
        if number % every:
            continue
        chosen.append(part)
        if len(chosen) == 2 * _SAMPLE:
            chosen, every = chosen[::2], 2 * every
    return chosen
