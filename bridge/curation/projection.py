"""Unit vectors in order along the direction in which they differ most: whatever is near has a near place.

Distances are computed from differences in float64: of nearly equal vectors the cosine in float32 has no digit left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]

_SAMPLE: Final = 4096  # vectors that choose the direction
_ROWS: Final = 512  # vectors compared with
_COLUMNS: Final = 8192  # so many others at a time: 16 MiB of cosines
_ROUNDING: Final = 1e-5  # of cosines and places in float32


@dataclass(frozen=True, eq=False)
class Line:
    """vectors float32 [N, E] in the order of `places` [N], which rise; order [N] says which row each of them was."""

    vectors: Vectors
    places: Floats
    order: Ids

    @staticmethod
    def of(rows: Vectors, direction: Vectors) -> Line:
        """Return rows [N, E] along a direction of unit length."""
        places = (rows @ direction).astype(np.float64)
        order = np.argsort(places, kind="stable").astype(np.int64)
        return Line(rows[order], places[order], order)

    def stretch(self, low: float, high: float) -> tuple[int, int]:
        """Return the range of those whose place is between low and high."""
        first, last = np.searchsorted(self.places, [low - _ROUNDING, high + _ROUNDING])
        return int(first), int(last)


def widest(rows: Vectors) -> Vectors:
    """Return the direction of unit length in which rows [N, E] differ most, as a sample tells."""
    sample = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    if not len(sample):
        return np.zeros(rows.shape[1], np.float32)
    apart = sample - sample.mean(axis=0)
    _, vectors = np.linalg.eigh(apart.T @ apart)
    direction: Vectors = vectors[:, -1].astype(np.float32)
    return direction


def close_pairs(left: Vectors, right: Vectors | None, radius: float) -> Iterator[tuple[Ids, Ids, Floats]]:
    """Yield (rows of left [p], rows of right [p], distances [p]) of the unit vectors at most `radius` apart.

    right None: pairs within left, each once, the smaller row first. Never more than a few million candidates at a time.
    """
    direction = widest(left)
    mine = Line.of(left, direction)
    others = mine if right is None else Line.of(right, direction)
    least = np.float32(1 - radius**2 / 2 - _ROUNDING)
    for start in range(0, len(mine.vectors), _ROWS):
        rows = mine.vectors[start : start + _ROWS]
        places = mine.places[start : start + _ROWS]
        first, last = others.stretch(places[0] - radius, places[-1] + radius)
        first = max(first, start) if right is None else first
        for column in range(first, last, _COLUMNS):
            columns = others.vectors[column : min(column + _COLUMNS, last)]
            near, far = np.nonzero(rows @ columns.T >= least)
            if right is None:
                once = far + column > near + start
                near, far = near[once], far[once]
            apart = distances(rows[near], columns[far])
            within = apart <= radius
            pair = (mine.order[start + near[within]], others.order[column + far[within]])
            low, high = (np.minimum(*pair), np.maximum(*pair)) if right is None else pair
            yield low, high, apart[within]


def distances(left: Vectors, right: Vectors) -> Floats:
    """Return the distance of each row from the one in the same place, float64 [N]; nothing is lost between equals."""
    found = np.empty(len(left))
    for start in range(0, len(left), _COLUMNS):
        part = slice(start, start + _COLUMNS)
        apart = left[part].astype(np.float64) - right[part]
        found[part] = np.sqrt((apart * apart).sum(axis=1))
    return found
