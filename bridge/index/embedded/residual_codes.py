"""Residual codes: what a sketch leaves of a vector, a byte per number, which bounds its product with a query tightly.

With x = a + r, a within the frame, and r = step * code + e, x.q = a.b + step * code.q + e.q, where b is the query's
part within the frame. No number of e is more than half a step, so that |e.q| <= step / 2 * sqrt(E) for a query of unit
length. A code is a quarter of its vector to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.checksums import Checksums

Bytes = NDArray[np.int8]

_AT_ONCE: Final = 512  # codes that are widened to float32 at a time: half a megabyte
_LARGEST: Final = 127 * (1 - 2.0**-20)  # so that nothing rounds to 128
_LEAST: Final = 2.0**-100  # of a step: float32 has all its digits from there on
_HALF: Final = 0.5 + 2.0**-12  # a step; a quotient in float32 may be rounded to the wrong side


def encode(left: Vectors) -> tuple[Bytes, Vectors]:
    """Return codes int8 [n, E] and their steps float32 [n] of what is left float32 [n, E] of vectors."""
    steps = np.maximum(np.maximum(left.max(axis=1), -left.min(axis=1)) / np.float32(_LARGEST), np.float32(_LEAST))
    found = left / steps[:, None]
    return np.rint(found, out=found).astype(np.int8), steps


@dataclass(frozen=True, eq=False)
class ResidualCodes:
    """The code int8 [E] and the step of each of N rows. checksums: of each episode's codes."""

    codes: Bytes
    steps: Vectors
    checksums: Checksums

    @property
    def max_error(self) -> float:
        """How many steps a product with a query of unit length may be off."""
        return _HALF * sqrt(self.codes.shape[1])

    def multiply(self, rows: Ids, query: Vectors) -> tuple[Vectors, Vectors]:
        """Return what the codes of these rows add to their product with a unit query, and what that may be off."""
        steps, found = self.steps.take(rows), np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _AT_ONCE):
            codes = self.codes.take(rows[start : start + _AT_ONCE], axis=0)
            np.dot(codes.astype(np.float32), query, out=found[start : start + _AT_ONCE])
        return found * steps, steps * np.float32(self.max_error)
