"""Measures the distance of a query and pieces of episodes along the paths of their alignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.alignment.align import measure_all
from bridge.search.moments.lane_rows import SMOOTHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.alignment.align import Pieces
    from bridge.alignment.arrays import Ints, Rows


def measure_differences(
    query: Rows, pieces: Pieces, paths: Sequence[Ints], every: int = 1, weights: Rows | None = None
) -> Rows:
    """Return the mean distance of the pairs of each path, weighted by the steps that each pair advances.

    The differences of a pair are first averaged with those of neighbouring pairs, so that noise cancels out. every: the
    stride with which query and pieces were subsampled.
    """
    return measure_all(query, pieces, paths, weights, SMOOTHED // (2 * every))
