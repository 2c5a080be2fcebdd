"""Residual codes: the residual of a vector after its sketch as int8, which bounds its product with a query tightly.

With x = a + r, a within the frame, and r = step * code + e, x.q = a.b + step * code.q + e.q, where b is the query's
part within the frame. No number of e exceeds half a step, so |e.q| <= step / 2 * sqrt(E) for a query of unit length. A
code has a quarter of the bytes of its vector.
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

_BATCH_ROWS: Final = 512  # codes converted to float32 at a time, half a megabyte
_MAX_CODE: Final = 127 * (1 - 2.0**-20)  # so that nothing rounds to 128
_MIN_STEP: Final = 2.0**-100  # above it float32 has full precision
_HALF_STEP: Final = 0.5 + 2.0**-12  # in steps, with a margin as a quotient in float32 may be rounded to the wrong side


def encode(residuals: Vectors) -> tuple[Bytes, Vectors]:
    """Return codes int8 [n, E] and their steps float32 [n] of the residuals float32 [n, E] of vectors."""
    steps = np.maximum(
        np.maximum(residuals.max(axis=1), -residuals.min(axis=1)) / np.float32(_MAX_CODE), np.float32(_MIN_STEP)
    )
    codes = residuals / steps[:, None]
    return np.rint(codes, out=codes).astype(np.int8), steps


@dataclass(frozen=True, eq=False)
class ResidualCodes:
    """Codes int8 [N, E] and steps [N] of all rows. checksums: of each episode's codes."""

    codes: Bytes
    steps: Vectors
    checksums: Checksums

    @property
    def max_error(self) -> float:
        """Maximum error of a product with a unit query, in steps."""
        return _HALF_STEP * sqrt(self.codes.shape[1])

    def multiply(self, rows: Ids, query: Vectors) -> tuple[Vectors, Vectors]:
        """Return the products of the codes of these rows with a unit query, and the maximum error of each."""
        steps, products = self.steps.take(rows), np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _BATCH_ROWS):
            codes = self.codes.take(rows[start : start + _BATCH_ROWS], axis=0)
            np.dot(codes.astype(np.float32), query, out=products[start : start + _BATCH_ROWS])
        return products * steps, steps * np.float32(self.max_error)
