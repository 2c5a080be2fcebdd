"""Balls around a few successive blocks each: where none of these can be near a query, they need not be compared.

The distance of a ball's centre from a block of the query, less the ball's radius, is a bound: no block in it is nearer.
So of a large archive a small share is compared, with the same result as if all of it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.block_distances import CHANGE, SAMPLED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.block_distances import BlockDistances, BlockGrid, BlockTemplate, Floats

BALL: Final = 4
"""Blocks in a ball, which may be of two episodes."""

_AT_ONCE: Final = 1 << 11  # balls
_ROUNDING: Final = 1e-5  # of squared lengths


def make_balls(blocks: Floats) -> Floats:
    """Return the balls of blocks [D + 2, m]: centres, their squared length less the squared radius, and the radius."""
    count = -(-len(blocks) // BALL)
    balls = np.zeros((blocks.shape[1] + 1, count), np.float32)
    for begin in range(0, count, _AT_ONCE):
        some = blocks[BALL * begin : BALL * (begin + _AT_ONCE), :-1]
        filled = np.concatenate([some, some[-1:].repeat(-len(some) % BALL, axis=0)])
        rows = filled.reshape(-1, BALL, some.shape[1]).astype(np.float64)
        centres = rows.mean(axis=1)
        squares = ((rows - centres[:, None]) ** 2).sum(axis=2).max(axis=1)
        into = balls[:, begin : begin + len(rows)]
        into[:-2] = centres.T
        into[-2] = (centres**2).sum(axis=1) - squares
        into[-1] = np.sqrt(squares)
    return balls


def measure_changes(blocks: Floats) -> Floats:
    """Return the squared length of the change from every second block to the next one of these."""
    some = blocks[::CHANGE, :-1]
    squares = np.zeros(max(0, len(some) - 1), np.float32)
    for begin in range(0, len(squares), _AT_ONCE):
        changes = np.diff(some[begin : begin + _AT_ONCE + 1], axis=0)
        np.einsum("nd,nd->n", changes, changes, out=squares[begin : begin + _AT_ONCE])
    return squares


@dataclass(frozen=True, eq=False)
class BlockBalls:
    """The balls of a grid's blocks; owners [m + 1]: the row of the episode of the first block of each."""

    grid: BlockGrid
    balls: Floats
    owners: NDArray[np.int32]

    def bound(self, templates: Sequence[BlockTemplate]) -> list[Bounds]:
        """Return how near templates may be to what is in each ball."""
        centres, radii = map(np.concatenate, zip(*(one.enclose() for one in templates), strict=True))
        squares = (centres**2).sum(axis=1)
        ones, zeros = np.ones((len(centres), 1)), np.zeros((len(centres), 1))
        powers = np.concatenate([-2 * centres, ones, zeros], axis=1, dtype=np.float32) @ self.balls
        powers += squares[:, None].astype(np.float32)
        rounding = _ROUNDING * (squares + float(np.abs(self.balls[-2]).max(initial=0)))
        edges = np.cumsum([0, *(len(one.coarse) for one in templates)]).tolist()
        return [
            Bounds(self, one, powers[start:stop], radii[start:stop], rounding[start:stop])
            for one, (start, stop) in zip(templates, pairwise(edges), strict=True)
        ]

    def is_open(self, steps: int) -> NDArray[np.bool_]:
        """Return whether any episode of each ball has so many timesteps."""
        fits = self.grid.lengths >= steps
        if fits.all():
            return np.ones(self.balls.shape[1], np.bool_)
        before = np.concatenate([[0], np.cumsum(fits)])
        is_open: NDArray[np.bool_] = before[self.owners[1:] + 1] > before[self.owners[:-1]]
        return is_open


@dataclass(frozen=True, eq=False)
class Bounds:
    """Of the blocks of a template that are compared with all places, [k] in each row.

    powers [k, m]: the squared distance of each ball's centre, less its squared radius; radii: of the phases of a block.
    """

    all: BlockBalls
    template: BlockTemplate
    powers: Floats
    radii: Rows
    rounding: Rows

    def find(self, most: int, limit: float = np.inf, *, least: float = 0.0) -> BlockDistances:
        """Compare the template with all places that are nearer than the limit, or of these with the `most` nearest.

        More places are compared, too. least: all that are nearer than this are compared in any case.
        """
        grid, is_open = self.all.grid, self.all.is_open(len(self.template.query.rows))
        sample = grid.measure(self.template, self._places(self._likely(is_open, most)), limit)
        limit = max(sample.reach(most, limit), least)
        return grid.measure(self.template, self._places(self._below(is_open, limit)), limit)

    def _places(self, balls: Ints) -> Ints:
        """Return every place in these balls with which the template is compared."""
        places = (BALL * balls[:, None] + np.arange(0, BALL, self.template.every)).ravel()
        return places[places < len(self.all.grid.values) - self.template.shifts[-1]]

    def _likely(self, is_open: NDArray[np.bool_], most: int) -> Ints:
        """Return balls that are likely near, with some times as many places."""
        key, count = self.powers[0].copy(), SAMPLED * most * self.template.every // BALL
        for power, shift in zip(self.powers[1:], self.template.coarse_shifts[1:], strict=True):
            key[: max(0, len(key) - shift // BALL)] += power[shift // BALL :]
        if not is_open.all():
            key[~is_open] = np.inf
        return np.argpartition(key, count)[:count] if count < len(key) else np.arange(len(key))

    def _below(self, is_open: NDArray[np.bool_], limit: float) -> Ints:
        """Return the balls at whose places the template may be nearer than this."""
        if limit == np.inf:
            return np.flatnonzero(is_open)
        found, twice = is_open, 2 * self.all.balls[-1]
        reach = np.sqrt(limit * self.template.scale) + self.radii
        for power, far, slack, shift in zip(
            self.powers, reach.tolist(), self.rounding.tolist(), self.template.coarse_shifts, strict=True
        ):
            is_near = power <= far * twice + (far**2 + slack)
            first, last = shift // BALL, -(-shift // BALL)
            either = is_near[first:].copy()
            either[: max(0, len(is_near) - last)] |= is_near[last:]
            found = found[: len(either)] & either
        return np.flatnonzero(found)
