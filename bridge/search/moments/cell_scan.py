"""Finds the places nearest to a template in cells: those that are near enough, the nearest ones first.

A place that is near a template is near each of its blocks. So members of cells are compared with one block, the one
that less is like, and the places of those near it with the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.block_distances import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bridge.alignment.arrays import Ints
    from bridge.search.moments.block_distances import BlockTemplate
    from bridge.search.moments.blocks import Floats
    from bridge.search.moments.cells import Cells
    from bridge.search.moments.nearest_places import NearestPlaces

MOST: Final = 16
"""Members compared for each place that is likely met, a few more at most.

So the time of a search is bounded, however large an archive is. More are near only where hardly anything is like
anything else.
"""

_CELLS: Final = 32  # the nearest ones, of which members are compared first; then twice as many, and so on
_CLOSED: Final = 8  # times as many members that are not to be found are met, until all places are compared
_RARE: Final = 8  # so many cells are nearer to a block than the distance that says how much is like it


class CellScan:
    """Compares the members of cells with one block of a template, at all its phases."""

    def __init__(self, cells: Cells, template: BlockTemplate, number: int, products: Floats) -> None:
        """Take the products [phases, k] of the block's weights and the centres of the cells."""
        block = template.coarse[number]
        self.number = number
        self._cells, self._shift, self._every = cells, template.coarse_shifts[number], template.every
        self._weights = template.weights[number]
        squares = (block**2).sum(axis=1)
        self._squares = squares.astype(np.float32)[:, None]
        self._slack = np.float32(ROUNDING * (squares.max() + cells.largest))
        self._centres = self._measure(products)

    @property
    def rarity(self) -> float:
        """How far few cells are from the block, at least: less is like one from which they are farther."""
        few = min(_RARE, len(self._centres) - 1)
        return float(np.partition(self._centres, few)[few])

    def find_near(self, search: NearestPlaces) -> Iterator[tuple[Ints, Floats]]:
        """Yield the places whose block is as near as the search's limit then, some at a time.

        Those of the nearest cells come first. Once many members are compared, of the others only those come that no
        search may miss. The second are the products of the block's weights and what is there.
        """
        most, far = MOST * search.likely, np.sqrt(np.maximum(self._centres - self._slack, 0))
        gaps, count, left, closed = far - self._cells.farthest, _CELLS, most, 0
        while True:
            squares = search.squares if left > 0 else search.least
            near = np.flatnonzero(gaps <= np.sqrt(squares))
            if left <= 0 and (gaps <= np.sqrt(search.squares)).any():
                search.is_complete, search.is_crowded_out = False, closed > most
            if not len(near) or not squares:
                return
            if count < len(near) and left > 0:
                near = np.sort(near[np.argpartition(far[near], count)[:count]])
            members = self._cells.find_far(near, far[near] - np.float32(np.sqrt(squares)))
            places = self._cells.apart * self._cells.members.take(members).astype(np.int64) - self._shift
            may_begin = (places >= 0) & (places % self._every == 0)
            if search.grid.is_open is not None:
                is_open = search.grid.is_open.take(places, mode="clip")
                may_begin &= is_open
                closed += int(np.count_nonzero(~is_open))
                if closed > _CLOSED * most:
                    search.is_crowded_out = True
                    return
            begin = np.flatnonzero(may_begin)  # taking by numbers is faster than by a mask
            members, places = members.take(begin), places.take(begin)
            products = self._weights @ self._cells.values.take(members, axis=0).T
            chosen = np.flatnonzero(self._measure(products) <= np.float32(squares) + self._slack)
            if len(chosen):
                chosen = chosen[np.argsort(places[chosen])]  # what is near in memory is read faster
                yield places[chosen], products[:, chosen]
            gaps[near], count, left = np.inf, 2 * count, left - len(members)

    def _measure(self, products: Floats) -> Floats:
        """Return the squared distances [n] of the block, at the nearest of its phases, from what gives these."""
        distances: Floats = (products + self._squares).min(axis=0)
        return distances


def find_in_cells(searches: Sequence[NearestPlaces], cells: Cells) -> None:
    """Let searches find their places among those of cells, whose centres are compared with all blocks at once."""
    blocks = [(search, number) for search in searches for number in range(len(search.template.coarse_shifts))]
    weights = [search.template.weights[number] for search, number in blocks]
    products = np.split(np.concatenate(weights) @ cells.columns, np.cumsum([*map(len, weights)])[:-1])
    scans: dict[NearestPlaces, CellScan] = {}
    for (search, number), own in zip(blocks, products, strict=True):
        scan = CellScan(cells, search.template, number, own)
        scans[search] = max(scans.get(search, scan), scan, key=lambda one: one.rarity)
    for search, scan in scans.items():
        for places, products_there in scan.find_near(search):
            search.measure(places, (scan.number, products_there))
