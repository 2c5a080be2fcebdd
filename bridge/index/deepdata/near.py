"""Which vectors are nearly equal: the server's graph falls apart among many of them, so one document stands for all."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TOLERANCE: Final = 3e-3
"""Distance of unit vectors: noise of 1e-4 in each of 256 numbers makes 2.3e-3; noise of 1e-3 does the graph no harm."""

_CELL: Final = 8 * TOLERANCE  # wide enough for most vectors to lie in one, narrow enough to tell most of them apart
_AXES: Final = 4  # of the cells
_SKETCH: Final = 32  # numbers that stand for a vector


class Near:
    """The vectors that documents stand for, by the documents' names.

    Distances are those of projections to 32 random directions: within a quarter of the true ones, mostly.
    """

    def __init__(self, dim: int) -> None:
        raw = np.random.default_rng(0).normal(size=(dim, _SKETCH))
        self._project = np.eye(dim) if dim <= _SKETCH else raw / np.sqrt(_SKETCH)
        turn = np.random.default_rng(1).normal(size=(self._project.shape[1], _AXES))
        self._turn = turn / np.linalg.norm(turn, axis=0)
        self._cells: dict[tuple[int, ...], list[int]] = {}
        self._names: list[str] = []
        self._rows: list[NDArray[np.float32]] = []

    def add(self, names: Sequence[str], vectors: Sequence[bytes]) -> list[str]:
        """Return for each float32 vector the name that stands for it: its own unless an earlier one is near enough."""
        if not names:
            return []
        wide = np.stack([np.frombuffer(one, "<f4") for one in vectors]).astype(np.float64) @ self._project
        sketches, axes = wide.astype(np.float32), wide @ self._turn
        lows, highs = (np.floor((axes + step) / _CELL).astype(int) for step in (-TOLERANCE, TOLERANCE))
        cells = np.floor(axes / _CELL).astype(int).tolist()
        found = []
        for at, name in enumerate(names):
            near = self._nearest(sketches[at], lows[at].tolist(), highs[at].tolist())
            if near is None:
                self._cells.setdefault(tuple(cells[at]), []).append(len(self._names))
                self._names.append(name)
                self._rows.append(sketches[at])
            found.append(name if near is None else self._names[near])
        return found

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
