"""Offsets of candidates from a query, as of sensors that drift: taken away before they are aligned, at a cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.alignment.align import Alignments, Pieces
    from bridge.alignment.arrays import Ints, Rows

SHIFT_COST: Final = 0.1
"""What an offset of one standard deviation costs."""

_DEARER: Final = 3.0  # times the cost of what is left


@dataclass(frozen=True, eq=False)
class Offsets:
    """What is added to the rows of each candidate [m, D]: zeros but for those that are free."""

    values: Rows
    free: NDArray[np.bool_]

    @staticmethod
    def of(query: Rows, pieces: Pieces, free: NDArray[np.bool_]) -> Offsets:
        """Return the mean differences of the query from the windows where its match is expected."""
        values = np.zeros((len(free), query.shape[1]))
        if free.any():
            ends = (pieces.expected + pieces.edges[:-1, None])[free]
            rows = np.concatenate([pieces.rows, np.zeros((1, query.shape[1]))])  # where the last one ends
            sums = np.add.reduceat(rows, ends.ravel())[::2]
            values[free] = query.mean(axis=0) - sums / np.diff(ends)
        return Offsets(values, free)

    def along(self, query: Rows, pieces: Pieces, found: Alignments) -> Offsets:
        """Return the mean differences along the paths that were found."""
        values = self.values.copy()
        places = np.flatnonzero(self.free)
        if len(places):
            paths = [found.paths[place] for place in places.tolist()]
            lengths = np.array([*map(len, paths)])
            pairs = np.concatenate(paths)
            rows = pairs[:, 1] + np.repeat(pieces.edges[places], lengths)
            apart = query.take(pairs[:, 0], axis=0) - pieces.rows.take(rows, axis=0)
            values[places] = np.add.reduceat(apart, np.cumsum(lengths) - lengths) / lengths[:, None]
        return Offsets(values, self.free)

    def of_some(self, places: Ints) -> Offsets:
        """Return those of some of the candidates."""
        return Offsets(self.values[places], self.free[places])

    def taken_from(self, pieces: Pieces) -> Pieces:
        """Return the pieces without the offsets."""
        if not self.free.any():
            return pieces
        return replace(pieces, rows=pieces.rows + np.repeat(self.values, np.diff(pieces.edges), axis=0))

    def weigh(self, costs: Rows) -> Rows:
        """Return what the costs count."""
        dear = _DEARER * costs + SHIFT_COST * np.sqrt((self.values**2).mean(axis=1))
        return np.where(self.free, dear, costs)
