"""Array types of the alignment kernels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Rows = NDArray[np.float64]
Ints = NDArray[np.int64]

PieceArrays = tuple[Rows, Ints, Ints]
RuleArrays = tuple[Ints, Rows, Rows, Rows]
Solved = tuple[Rows, Ints, Ints, Ints]


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths one below the other: rising pairs (query step, row), int64 [P, 2], and the end of each in them [m]."""

    pairs: Ints
    ends: Ints

    @staticmethod
    def of(paths: Iterable[Ints]) -> Paths:
        """Return these paths, at least one."""
        parts = [*paths]
        return Paths(np.concatenate(parts), np.cumsum([*map(len, parts)]))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: int) -> Ints:
        return self.pairs[self.ends[place - 1] if place else 0 : self.ends[place]]

    def __iter__(self) -> Iterator[Ints]:
        return (self.pairs[begin:end] for begin, end in pairwise([0, *self.ends.tolist()]))
