"""Finds nearly equal vectors: many of them break the server's graph, so one document represents all."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TOLERANCE: Final = 3e-3
"""Distance of unit vectors: noise of 1e-4 in each of 256 numbers makes 2.3e-3; noise of 1e-3 does the graph no harm."""

_CELL_SIZE: Final = 8 * TOLERANCE  # most neighbourhoods fit into one cell, and most vectors are in different cells
_CELL_AXES: Final = 4  # of the cells
_SKETCH_DIM: Final = 32  # numbers that stand for a vector


class Near:
    """The vectors that documents represent, by the names of the documents.

    Distances are those of projections to 32 random directions, mostly within a quarter of the true ones.
    """

    def __init__(self, dim: int) -> None:
        raw = np.random.default_rng(0).normal(size=(dim, _SKETCH_DIM))
        self._project = np.eye(dim) if dim <= _SKETCH_DIM else raw / np.sqrt(_SKETCH_DIM)
        turn = np.random.default_rng(1).normal(size=(self._project.shape[1], _CELL_AXES))
        self._turn = turn / np.linalg.norm(turn, axis=0)
        self._cells: dict[tuple[int, ...], list[int]] = {}
        self._names: list[str] = []
        self._rows: list[NDArray[np.float32]] = []

    def add(self, names: Sequence[str], vectors: Sequence[bytes]) -> list[str]:
        """Return for each float32 vector the name of its representative: an earlier one near enough, else its own."""
        if not names:
            return []
        projected = np.stack([np.frombuffer(vector, "<f4") for vector in vectors]).astype(np.float64) @ self._project
        sketches, axes = projected.astype(np.float32), projected @ self._turn
        lows, highs = (np.floor((axes + step) / _CELL_SIZE).astype(int) for step in (-TOLERANCE, TOLERANCE))
        cells = np.floor(axes / _CELL_SIZE).astype(int).tolist()
        representatives = []
        for row, name in enumerate(names):
            near = self._nearest(sketches[row], lows[row].tolist(), highs[row].tolist())
            if near is None:
                self._cells.setdefault(tuple(cells[row]), []).append(len(self._names))
                self._names.append(name)
                self._rows.append(sketches[row])
            representatives.append(name if near is None else self._names[near])
        return representatives

    def replace(self, name: str, other: str) -> None:
        """Make the document `other` represent what `name` represented, which was removed."""
        self._names[self._names.index(name)] = other

    def _nearest(self, sketch: NDArray[np.float32], lows: list[int], highs: list[int]) -> int | None:
        ranges = (range(low, high + 1) for low, high in zip(lows, highs, strict=True))
        rows = [row for cell in product(*ranges) for row in self._cells.get(cell, ())]
        if not rows:
            return None
        distances = np.linalg.norm(np.stack([self._rows[row] for row in rows]) - sketch, axis=1)
        best = int(distances.argmin())
        return rows[best] if distances[best] <= TOLERANCE else None
