"""Finds the places nearest to a template in cells: those that are near enough, the nearest ones first.

Where a template has two blocks, a place that is near it is near one of these: one has at most its share of the sum of
squares. So the members of few cells are compared with one block each, and the places of those near it with both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.block_distances import ROUNDING
from bridge.search.moments.cells import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bridge.alignment.arrays import Ints
    from bridge.search.moments.block_distances import BlockTemplate
    from bridge.search.moments.blocks import Floats
    from bridge.search.moments.cells import Cells
    from bridge.search.moments.nearest_places import NearestPlaces

_AT_ONCE: Final = 1 << 16  # members compared before the limit is looked at again
_MEASURED: Final = 1 << 10  # places that are near by one block, before they are compared with both
_MOST_NEAR: Final = 0.5  # of all members: more are compared faster with all places, in their order
_SHARES: Final = [(1 - share, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]  # of two blocks


class CellScan:
    """Compares the members of cells with one block of a template, at all its phases."""

    def __init__(self, cells: Cells, template: BlockTemplate, number: int) -> None:
        block = template.coarse[number]
        self._cells, self._shift, self._every = cells, template.coarse_shifts[number], template.every
        self._weights = np.concatenate([-2 * block, np.ones((len(block), 1))], axis=1).astype(np.float32)
        squares = (block**2).sum(axis=1)
        self._squares = squares.astype(np.float32)[:, None]
        self._slack = np.float32(ROUNDING * (squares.max() + cells.largest))
        self._distances = np.sqrt(np.maximum(self._compare(cells.centres) - self._slack, 0))
        self._gaps = self._distances - cells.reaches[:, 0]
        self._middles = self._distances - cells.reaches[:, PARTS // 4]

    def _compare(self, values: Floats) -> Floats:
        """Return the squared distance of values from the block, at the nearest of its phases."""
        products = self._weights @ values.T
        products += self._squares
        nearest: Floats = products.min(axis=0)
        return nearest

    def take_first(self, count: int) -> Ints:
        """Return places in the nearest cells, at least so many if there are."""
        wanted = min(len(self._distances), count)
        near = np.argpartition(self._distances, wanted - 1)[:wanted]
        near = near[np.argsort(self._distances[near])]
        near = near[: 1 + np.searchsorted(np.cumsum(self._cells.sizes[near]), count)]
        return self._find_places(self._cells.find_far(near, np.zeros(len(near), np.float32)))

    def count(self, squares: float) -> int:
        """Return about how many members may be so near."""
        near = self._middles <= np.sqrt(squares)
        return int(self._cells.weights @ near.astype(np.float32)) if squares else 0

    def find_near(self, search: NearestPlaces, share: float) -> Iterator[Ints]:
        """Yield the places whose block is as near as a share of the search's limit then, some at a time."""
        near = np.flatnonzero(self._gaps <= np.sqrt(share * search.sure))
        near = near[np.argsort(self._gaps[near])]
        ends, first, found = np.cumsum(self._cells.sizes[near]), 0, near[:0]
        while first < len(near) and self._gaps[near[first]] <= (reach := np.sqrt(squares := share * search.sure)):
            last = 1 + int(np.searchsorted(ends, (ends[first - 1] if first else 0) + _AT_ONCE))
            cells = near[first:last]
            members = self._cells.find_far(cells, self._distances[cells] - np.float32(reach))
            distances = self._compare(self._cells.values.take(members, axis=0))
            places = self._find_places(members[distances <= np.float32(squares) + self._slack])
            first, found = last, np.concatenate([found, places])
            if len(found) >= _MEASURED:
                yield found
                found = near[:0]
        if len(found):
            yield found

    def _find_places(self, members: Ints) -> Ints:
        places = self._cells.apart * self._cells.members.take(members).astype(np.int64) - self._shift
        chosen: Ints = places[(places >= 0) & (places % self._every == 0)]
        return chosen


def find_in_cells(search: NearestPlaces, cells: Cells) -> bool:
    """Let a search find its places among those of cells, unless these hardly tell what is near: then return False."""
    template = search.template
    scans = [CellScan(cells, template, number) for number in range(len(template.coarse_shifts))]
    search.measure(np.unique(np.concatenate([scan.take_first(search.likely) for scan in scans])))
    shares, count = _choose_shares(scans, search.sure)
    if count > _MOST_NEAR * len(cells.members):
        search.forget()
        return False
    for scan, share in zip(scans, shares, strict=True):
        for places in scan.find_near(search, share) if share else ():
            search.measure(places)
    return True


def _choose_shares(scans: Sequence[CellScan], squares: float) -> tuple[Sequence[float], int]:
    """Return the share of each of one or two blocks in the sum of squares, and about how many members are compared.

    Of some shares those by which these are fewest.
    """
    options: Sequence[tuple[float, ...]] = [(1.0,)] if len(scans) == 1 else _SHARES
    counts = [sum(scan.count(share * squares) for scan, share in zip(scans, one, strict=True)) for one in options]
    return options[counts.index(min(counts))], min(counts)
