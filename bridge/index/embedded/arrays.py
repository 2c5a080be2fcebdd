"""Array types and widths of the search copy."""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Axes = NDArray[np.float64]
Numbers = NDArray[np.uint8]
Rounded = NDArray[np.int16]
Rows = NDArray[np.int64]
WIDTH: Final = 16  # numbers of an outline: P coordinates, then 0, the length at last
UNIT: Final = 32_000  # steps: an int16 holds every number of a vector of unit length; with others, layouts differ
OFF: Final = sqrt(WIDTH) / (2 * UNIT)
Bounds = NDArray[np.floating]
