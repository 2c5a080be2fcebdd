"""Balls around a few successive blocks each: where none of these can be near a query, they need not be compared.

The distance of a ball's centre from a block of the query, less the ball's radius, is a bound: no block in it is nearer.
So of a large archive a small share is compared, with the same result as if all of it was. The same is done with changes
from block to block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bridge.search.moments.block_distances import BALL, CHANGE, count_blocks

if TYPE_CHECKING:
    from bridge.alignment.arrays import Ints
    from bridge.search.moments.block_distances import Floats
    from bridge.search.moments.cells import Cells


def make_balls(values: Floats, size: int = BALL) -> Floats:
    """Return the balls around each `size` of some values [n, D]: [n / size, D + 2].

    A row is the centre, its squared length less the squared radius, and the radius.
    """
    rows = values.reshape(-1, size, values.shape[1]).astype(np.float64)
    centres = rows.mean(axis=1)
    squares = ((rows - centres[:, None]) ** 2).sum(axis=2).max(axis=1)
    balls = np.empty((len(centres), values.shape[1] + 2), np.float32)
    balls[:, :-2] = centres
    balls[:, -2] = (centres**2).sum(axis=1) - squares
    balls[:, -1] = np.sqrt(squares)
    return balls


def make_changes(blocks: Floats, lengths: Ints) -> Floats:
    """Return the balls around one change each: from every second block of an episode to the next one of these."""
    counts, stored = count_blocks(lengths)
    stored //= CHANGE
    numbers = np.arange(stored.sum()) - np.repeat(np.cumsum(stored) - stored, stored)
    lasts = np.maximum(0, (counts - CHANGE - 1) // CHANGE)  # what is behind them leads to another episode
    places = CHANGE * (np.arange(len(numbers)) - np.maximum(0, numbers - np.repeat(lasts, stored)))
    return make_balls(blocks.take(places + CHANGE, axis=0)[:, :-1] - blocks.take(places, axis=0)[:, :-1], 1)


@dataclass(frozen=True, eq=False)
class BlockBalls:
    """The balls [m, D + 2] of blocks or changes; size: places of each; cells: of the first of these, if any."""

    values: Floats
    size: int
    cells: Cells | None = None

    @property
    def first(self) -> int:
        """The first ball that is not of what is in cells."""
        return 0 if self.cells is None else self.cells.places // self.size

    @cached_property
    def largest(self) -> tuple[float, float]:
        """The largest squared length less the squared radius, and the largest radius, of what is in no cell."""
        values = self.values[self.first :, -2:]
        return float(np.abs(values[:, 0]).max(initial=0)), float(values[:, 1].max(initial=0))
