"""Constant offsets of candidates from a query, as of drifting sensors: removed before alignment, for a penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.alignment.align import Alignments, Pieces
    from bridge.alignment.arrays import Ints, Rows

SHIFT_COST: Final = 0.1
"""Penalty for an offset of one standard deviation."""

_COST_FACTOR: Final = 3.0  # on the cost that remains without the offset


@dataclass(frozen=True, eq=False)
class Offsets:
    """Values [m, D] added to the rows of each candidate, zeros unless it is free (may be shifted)."""

    values: Rows
    free: NDArray[np.bool_]

    @staticmethod
    def of(query: Rows, pieces: Pieces, free: NDArray[np.bool_]) -> Offsets:
        """Return the mean differences of the query from the windows where its match is expected."""
        values = np.zeros((len(free), query.shape[1]))
        if free.any():
            ends = (pieces.expected + pieces.edges[:-1, None])[free]
            rows = np.concatenate(
                [pieces.rows, np.zeros((1, query.shape[1]))]
            )  # reduceat needs an index for the end of the last window
            sums = np.add.reduceat(rows, ends.ravel())[::2]
            values[free] = query.mean(axis=0) - sums / np.diff(ends)
        return Offsets(values, free)

    def along(self, query: Rows, pieces: Pieces, alignments: Alignments) -> Offsets:
        """Return the mean differences along the paths of alignments."""
        values = self.values.copy()
        places = np.flatnonzero(self.free)
        if len(places):
            paths = [alignments.paths[place] for place in places.tolist()]
            lengths = np.array([*map(len, paths)])
            pairs = np.concatenate(paths)
            rows = pairs[:, 1] + np.repeat(pieces.edges[places], lengths)
            differences = query.take(pairs[:, 0], axis=0) - pieces.rows.take(rows, axis=0)
            values[places] = np.add.reduceat(differences, np.cumsum(lengths) - lengths) / lengths[:, None]
        return Offsets(values, self.free)

    def take(self, places: Ints) -> Offsets:
        """Return the offsets of the candidates at these places."""
        return Offsets(self.values[places], self.free[places])

    def add_to(self, pieces: Pieces) -> Pieces:
        """Return the pieces with the values added, which removes their offsets from the query."""
        if not self.free.any():
            return pieces
        return replace(pieces, rows=pieces.rows + np.repeat(self.values, np.diff(pieces.edges), axis=0))

    def weigh(self, costs: Rows) -> Rows:
        """Return the costs, those of free candidates increased by the penalty."""
        penalised = _COST_FACTOR * costs + SHIFT_COST * np.sqrt((self.values**2).mean(axis=1))
        return np.where(self.free, penalised, costs)
