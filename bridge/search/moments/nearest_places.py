"""Finds the places of an archive that are nearest to a template, by comparing all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.block_distances import ROUNDING, BlockDistances

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.alignment.arrays import Ints
    from bridge.search.moments.block_distances import BlockGrid, BlockTemplate
    from bridge.search.moments.blocks import Floats

    Columns = Callable[[int, bool, int], Floats]

WITHOUT_CELLS: Final = 1 << 17
"""Blocks that are in no cells, as comparing all of them takes no longer."""

_SAMPLED: Final = 4  # times as many places as are wanted that are compared before others, as these may be nearest
_PLACES: Final = 1 << 13  # compared at once, so that they fit in the CPU cache


@dataclass(frozen=True)
class Wanted:
    """The `most` nearest places, of those nearer than a limit, and all nearer than `least`."""

    most: int
    limit: float = np.inf
    least: float = 0.0


class NearestPlaces:
    """The places nearest to a template that were found until now.

    is_complete: none of these is missed; is_crowded_out: most that is near is not to be found.
    """

    def __init__(self, grid: BlockGrid, template: BlockTemplate, wanted: Wanted) -> None:
        self.template, self.grid = template, grid
        self.found = BlockDistances(grid, template, np.zeros(0, np.int64), np.zeros(0, np.float32))
        self.likely = _SAMPLED * wanted.most
        self._wanted = wanted
        self._near: list[tuple[Ints, Floats]] = []
        self._near_count = 0
        self._limit = max(wanted.limit, wanted.least)
        self._scale = template.scale * (1 + ROUNDING)
        self.is_complete, self.is_crowded_out = True, False

    @property
    def squares(self) -> float:
        """The sum of squares that the limit is, and a little more."""
        return self._limit * self._scale

    @property
    def least(self) -> float:
        """The sum of squares up to which no place may be missed."""
        return self._wanted.least * self._scale

    def measure(self, places: Ints, known: tuple[int, Floats] | None = None) -> None:
        """Compare the template with what is at places; known: the number of a block, and its products with these."""
        inside = places < len(self.grid.values) - self.template.shifts[-1]
        if not inside.all():
            places, known = places[inside], known and (known[0], known[1][:, inside])
        self._join(self.grid.measure(self.template, places, self._limit, known))

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
            self._near.append((first + every * near, squares[near] / np.float32(self.template.scale)))
            self._near_count += len(near)
        if self._near_count >= self.likely:
            self.keep_nearest()

    def keep_nearest(self) -> None:
        """Lower the limit to what is reached by the places chosen since it was."""
        if self._near:
            places, distances = map(np.concatenate, zip(*self._near, strict=True))
            self._near, self._near_count = [], 0
            self._join(self.grid.select(self.template, places, distances))

    def _join(self, found: BlockDistances) -> None:
        most, least = self._wanted.most, self._wanted.least
        new = found.without(self.found.places)  # a place may be met in two cells
        self.found = self.found.joined(new).nearest(most, least)
        if len(self.found.places) >= most:
            self._limit = min(self._limit, max(self.found.reach(most), least))


def compare_all(searches: Sequence[NearestPlaces], columns: Columns, begin: int = 0) -> None:
    """Let searches compare all places from one on: those so many apart together, as they are multiplied at once."""
    for every in {one.template.every for one in searches}:
        group = [one for one in searches if one.template.every == every]
        values = columns(every, group[0].template.is_of_changes, begin)
        weights = np.concatenate([part for one in group for part in one.template.weights])
        edges = np.cumsum([0, *(one.template.weights[..., 0].size for one in group)]).tolist()
        behind = [one.template.shifts[-1] // every for one in group]
        room = np.empty((len(weights), _PLACES + max(behind)), np.float32)  # memory that is new is slower
        for first in range(0, values.shape[1], _PLACES):
            part = values[:, first : first + room.shape[1]]
            products = np.matmul(weights, part, out=room[:, : part.shape[1]])
            for one, last, (start, stop) in zip(group, behind, pairwise(edges), strict=True):
                one.choose(begin + every * first, products[start:stop, : _PLACES + last])
        for one in group:
            one.keep_nearest()
