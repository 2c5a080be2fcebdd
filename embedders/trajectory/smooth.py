"""Smooth rows over time: recordings and actions jitter from one timestep to the next, movements do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from embedders.numeric import Rows


def smooth(rows: Rows, count: int) -> Rows:
    """Return rows [T, D], each the mean of `count` (odd) rows around it; at the ends of those that are there."""
    total, counts = rows.copy(), np.ones((len(rows), 1))
    for apart in range(1, min(count // 2, len(rows) - 1) + 1):  # in one order for every row: equal rows stay equal
        total[apart:] += rows[:-apart]
        total[:-apart] += rows[apart:]
        counts[apart:] += 1
        counts[:-apart] += 1
    total /= counts
    return total
