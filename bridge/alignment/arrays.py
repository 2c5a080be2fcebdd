"""Array types of the alignment kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Ints = NDArray[np.int64]

PieceArrays = tuple[Rows, Ints, Ints]
RuleArrays = tuple[Ints, Rows, Rows, Rows]
Solved = tuple[Rows, Ints, Ints, Ints]
