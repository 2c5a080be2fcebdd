"""Blocks: means of a few timesteps, which noise hardly moves, and the changes from block to block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints

    Floats = NDArray[np.float32]

BLOCK: Final = 4
"""Timesteps whose mean is compared."""

APART: Final = 2
"""Timesteps from the begin of one block to that of the next."""

CHANGE: Final = BLOCK // APART
"""Blocks from one to that which begins where it ends: changes are from each so many-th to that."""


def count_blocks(lengths: Ints) -> tuple[Ints, Ints]:
    """Return how many blocks episodes of these lengths have, and how many are stored of them.

    These are a multiple of CHANGE, so that changes have rows of their own: the last block is stored again.
    """
    counts = np.maximum(0, (lengths - BLOCK) // APART + 1)
    return counts, -(-counts // CHANGE) * CHANGE


def make_blocks(rows: Floats, lengths: Ints) -> Floats:
    """Return the mean of the BLOCK rows [T, D] from every second timestep, its squared length as a last column.

    lengths: those of the episodes, one below the other.
    """
    counts, stored = count_blocks(lengths)
    numbers = _number(stored)
    begins = np.repeat(np.cumsum(lengths) - lengths, stored) + APART * np.minimum(
        numbers, np.repeat(counts - 1, stored)
    )
    means = np.zeros((len(begins), rows.shape[1]), np.float32)
    for start in range(BLOCK if len(begins) else 0):
        means += rows.take(begins + start, axis=0)
    means /= BLOCK
    return with_squares(means)


def make_changes(blocks: Floats, lengths: Ints) -> Floats:
    """Return the changes from every second block of an episode to the next one of these, with their squared length."""
    counts, stored = count_blocks(lengths)
    stored //= CHANGE
    numbers = _number(stored)
    lasts = np.maximum(0, (counts - CHANGE - 1) // CHANGE)  # what is behind them leads to another episode
    places = CHANGE * (np.arange(len(numbers)) - np.maximum(0, numbers - np.repeat(lasts, stored)))
    return with_squares(blocks.take(places + CHANGE, axis=0, mode="clip")[:, :-1] - blocks.take(places, axis=0)[:, :-1])


def _number(counts: Ints) -> Ints:
    """Return the numbers of the rows of each episode, from 0 on, one episode below the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def with_squares(values: Floats) -> Floats:
    """Return values [n, D] with their squared length as a last column."""
    return np.concatenate([values, np.einsum("nd,nd->n", values, values)[:, None]], axis=1)
