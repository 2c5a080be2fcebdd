"""Fold many channels, and their descriptors, to a fixed size: they share places, with signs that keep cosines."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_CHANNELS: Final = 256
"""Channels that are described one by one; of more, some are added up first: time and memory stay those of so many."""


def fold(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return values [N, n] as [N, min(n, size)]: those that lie `size` apart are added, each with its own sign.

    Signs depend on n and the place alone and differ like coins, so that products of rows are kept on average: one value
    more changes one sum of `size`, many more cost a cosine about 1 / sqrt(size). `size` values or fewer stay as they
    are.
    """
    count = values.shape[1]
    if count <= size:
        return values
    signs = _signs(count)
    folded = values[:, :size] * signs[:size]
    for start in range(size, count, size):
        part = values[:, start : start + size]
        folded[:, : part.shape[1]] += part * signs[start : start + size]
    return folded


def folded_shares(sources: Sequence[NDArray[np.intp]], channels: int, size: int) -> NDArray[np.float64]:
    """Return [min(n, size), channels]: the share of each channel in values that were folded, rows of sum 1.

    sources: the channels that each of n values comes from, as arrays [n]; they count alike.
    """
    total = min(len(sources[0]), size)
    places = np.concatenate([np.arange(len(source)) % total * channels + source for source in sources])
    shares = np.bincount(places, minlength=total * channels).reshape(total, channels).astype(np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


@lru_cache(maxsize=16)
def _signs(count: int) -> NDArray[np.float64]:
    """Return `count` signs, the same on every machine: a bit of each place, mixed as SplitMix64 does."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    signs = 1.0 - 2.0 * (mixed >> np.uint64(63)).astype(np.float64)
    signs.flags.writeable = False
    return signs
