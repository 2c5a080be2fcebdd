"""Finds the places of an archive that are nearest to a template, by bounds: as it finds some, fewer may be nearer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.block_distances import ROUNDING, BlockDistances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints
    from bridge.search.moments.block_balls import BlockBalls
    from bridge.search.moments.block_distances import BlockGrid, BlockTemplate, Floats

    Columns = Callable[[int, bool], Floats]

_SAMPLED: Final = 4  # times as many places as are wanted that are compared before others, as these may be nearest
_PENDING: Final = 1 << 12  # balls that are compared at once, at least
_AT_ONCE: Final = 1 << 14  # balls bounded at once, so that their distances fit in the CPU cache
_PLACES: Final = 1 << 13  # compared at once, likewise
_APART: Final = 0.618  # of all, from some balls to the next ones, so that the first ones are of all kinds


class NearestPlaces:
    """The `most` places nearest to a template, of those nearer than a limit, and all that are nearer than `least`."""

    def __init__(
        self,
        balls: BlockBalls,
        grid: BlockGrid,
        template: BlockTemplate,
        most: int,
        *,
        limit: float = np.inf,
        least: float = 0.0,
    ) -> None:
        self.template = template
        self.room = -(-template.coarse_shifts[-1] // balls.size)
        """Balls behind one that its places reach to."""
        self._balls, self._grid, self._most, self._least = balls, grid, most, least
        self._centres, self._spreads = template.enclose()
        self._squares = (self._centres**2).sum(axis=1)
        fits = grid.lengths >= len(template.query.rows)
        self._fits = None if fits.all() else fits
        self._likely = max(1, _SAMPLED * most * template.every // balls.size)
        self._pending: list[Ints] = []
        self._pending_count = 0
        self._near: list[tuple[Ints, Floats]] = []
        self._near_count = 0
        self.found = BlockDistances(grid, template, np.zeros(0, np.int64), np.zeros(0, np.float32))
        self._set_limit(max(limit, least))

    @property
    def likely(self) -> int:
        """Places to compare before others, as these may be nearest."""
        return _SAMPLED * self._most

    @property
    def squares(self) -> float:
        """The sum of squares that the limit is, and a little more."""
        return self._limit * self.template.scale * (1 + ROUNDING)

    def add(self, first: int, last: int, powers: Floats) -> None:
        """Look at the balls from first to last; powers [k, n]: weighted sums of these, and of some behind them."""
        far: NDArray[np.bool_] = np.zeros(last - first, np.bool_)
        if self._limit < np.inf:
            for power, most, shift in zip(powers, self._most_powers, self.template.coarse_shifts, strict=True):
                begin, end = shift // self._balls.size, -(-shift // self._balls.size)
                is_far = np.ones(len(far), np.bool_)  # the last of all have nothing behind them
                for start in range(begin, end + 1):
                    beyond = power[start : start + len(far)] > most
                    is_far[: len(beyond)] &= beyond
                far |= is_far
        near = np.flatnonzero(~far)
        if self._fits is not None:
            near = near[self._fits[self._grid.find_owners(self._balls.size * (first + near))]]
        self._pending.append(near + first)
        self._pending_count += len(near)
        if self._pending_count >= max(_PENDING, 2 * self._likely):
            self.compare()

    def compare(self) -> None:
        """Compare the template with the places in the balls that were added, unless they are too far."""
        balls = np.concatenate([*self._pending, np.zeros(0, np.int64)])
        self._pending, self._pending_count = [], 0
        gaps, squares = self._bound(balls)
        near = ~(gaps > self.squares)
        balls, gaps, squares = balls[near], gaps[near], squares[near]
        if len(balls) > 2 * self._likely:
            order = np.argpartition(squares, self._likely)
            self._measure(balls[order[: self._likely]])
            rest = order[self._likely :]
            balls = balls[rest[gaps[rest] <= self.squares]]
        self._measure(balls)

    def _bound(self, balls: Ints) -> tuple[Floats, Floats]:
        """Return the least sum of squares of the template's blocks in balls, and that of the balls' centres."""
        gaps, totals = np.zeros((2, len(balls)), np.float32)
        size = self._balls.size
        slacks = self._slacks(0.0)
        for number, shift in enumerate(self.template.coarse_shifts):
            gap, squares = self._measure_gap(number, balls + shift // size, slacks[number])
            if shift % size:
                other, others = self._measure_gap(number, balls + shift // size + 1, slacks[number])
                np.minimum(gap, other, out=gap)
                np.minimum(squares, others, out=squares)
            gaps += gap * gap
            totals += squares
        return gaps, totals

    def _measure_gap(self, number: int, balls: Ints, slack: float) -> tuple[Floats, Floats]:
        """Return how far a block of the template is from all in some balls, at least, and its squares from centres."""
        values = self._balls.values.take(balls, axis=0, mode="clip")
        radii = values[:, -1]
        squares = values[:, :-2] @ (-2 * self._centres[number]).astype(np.float32)
        squares += values[:, -2] + radii * radii + np.float32(self._squares[number])
        gaps = np.sqrt(np.maximum(squares - np.float32(slack), 0)) - radii - np.float32(self._spreads[number])
        return np.maximum(gaps, 0, out=gaps), squares

    def _measure(self, balls: Ints) -> None:
        """Compare the template with every place in these balls at which it is compared, and lower the limit."""
        if not len(balls):
            return
        size = self._balls.size
        self.measure((size * balls[:, None] + np.arange(0, size, self.template.every)).ravel())

    def measure(self, places: Ints) -> None:
        """Compare the template with what is at places, and lower the limit."""
        places = places[places < len(self._grid.values) - self.template.shifts[-1]]
        self._join(self._grid.measure(self.template, places, self._limit))

    def choose(self, first: int, products: Floats) -> None:
        """Look at the places from first on, as many as there are.

        products [coarse shifts * phases, n]: of the template's weights and the blocks there; they are overwritten.
        """
        every, phases = self.template.every, len(self.template.values)
        count = max(0, products.shape[1] - self.template.shifts[-1] // every)
        total = products[:phases, :count]
        for number, shift in enumerate(self.template.coarse_shifts[1:], 1):
            total += products[phases * number : phases * (number + 1), shift // every :][:, :count]
        total += self.template.squares
        squares = total.min(axis=0)
        near = np.flatnonzero(squares <= self.squares)
        if len(near):
            self._near.append((every * (first + near), squares[near] / np.float32(self.template.scale)))
            self._near_count += len(near)
        if self._near_count >= _SAMPLED * self._most:
            self.keep_nearest()

    def keep_nearest(self) -> None:
        """Lower the limit to what is reached by the places chosen since it was."""
        if self._near:
            places, distances = map(np.concatenate, zip(*self._near, strict=True))
            self._near, self._near_count = [], 0
            self._join(self._grid.select(self.template, places, distances))

    def _join(self, found: BlockDistances) -> None:
        if self._balls.cells is not None:  # in which a place may be met again
            found = found.without(self.found.places)
        self.found = self.found.joined(found).nearest(self._most, self._least)
        if len(self.found.places) >= self._most:
            limit = max(self.found.reach(self._most), self._least)
            if limit < self._limit:
                self._set_limit(limit)

    def _set_limit(self, limit: float) -> None:
        """Look for places up to this distance from now on.

        weights [k, D + 2]: of the values of a ball, whose sum tells whether it may be near a block. A ball of radius r
        is near if the square of its centre's distance is at most (reach + r) squared.
        """
        self._limit = limit
        reach = (np.sqrt(self.squares) if limit < np.inf else 0.0) + self._spreads
        self.weights = np.empty((len(reach), self._centres.shape[1] + 2), np.float32)
        self.weights[:, :-2] = -2 * self._centres
        self.weights[:, -2] = 1
        self.weights[:, -1] = -2 * reach
        self._most_powers = (np.square(reach) - self._squares + self._slacks(reach)).astype(np.float32)

    def _slacks(self, reach: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return how much rounding may move the squared distances of balls."""
        largest, radius = self._balls.largest
        slacks: NDArray[np.float64] = ROUNDING * (self._squares + largest + 2 * reach * radius + np.square(reach))
        return slacks


def compare_all(searches: Sequence[NearestPlaces], columns: Columns) -> None:
    """Let searches compare all places: those that are so many apart together, as these are multiplied at once."""
    for every in {one.template.every for one in searches}:
        group = [one for one in searches if one.template.every == every]
        values = columns(every, group[0].template.is_of_changes)
        weights = np.concatenate([part for one in group for part in one.template.weights])
        edges = np.cumsum([0, *(one.template.weights[..., 0].size for one in group)]).tolist()
        behind = [one.template.shifts[-1] // every for one in group]
        room = np.empty((len(weights), _PLACES + max(behind)), np.float32)  # memory that is new is slower
        for first in range(0, values.shape[1], _PLACES):
            part = values[:, first : first + room.shape[1]]
            products = np.matmul(weights, part, out=room[:, : part.shape[1]])
            for one, last, (start, stop) in zip(group, behind, pairwise(edges), strict=True):
                one.choose(first, products[start:stop, : _PLACES + last])
        for one in group:
            one.keep_nearest()


def find_nearest(searches: Sequence[NearestPlaces], balls: BlockBalls) -> None:
    """Let searches find their places in balls that are not in cells, which are bounded for all of them at once."""
    if not searches or balls.first == len(balls.values):
        return
    behind = max(one.room for one in searches)
    edges = np.cumsum([0, *(len(one.weights) for one in searches)]).tolist()
    for first, last in _divide(balls.first, len(balls.values)):
        weights = np.concatenate([one.weights for one in searches])
        powers = weights @ balls.values[first : last + behind].T
        for one, (start, stop) in zip(searches, pairwise(edges), strict=True):
            one.add(first, last, powers[start:stop])
    for one in searches:
        one.compare()


def _divide(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of these balls, each far from the last one."""
    count = -(-(end - begin) // _AT_ONCE)
    step = max(1, round(_APART * count))
    while np.gcd(step, count) > 1:
        step += 1
    for number in range(count):
        first = begin + number * step % count * _AT_ONCE
        yield first, min(first + _AT_ONCE, end)
