"""Chooses the candidates that are refined to moments, by a coarse alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.alignment.align import align_all
from bridge.search.moments.offsets import Offsets
from bridge.search.moments.refine import RANKING, Windows, cut_around

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridge.search.moments.lane_rows import PreparedRows

_COARSE_STEPS: Final = 16  # of a query, at most, compared while there are many candidates


def narrow(
    query: PreparedRows, windows: Windows, lanes: Mapping[int, PreparedRows], max_count: int, *, sure: int
) -> Windows:
    """Return the candidates with the lowest cost of a coarse alignment: at most max_count, and half as many free ones.

    Rows are more precise than vectors; the first `sure` candidates, nearest by vector, are kept in any case.
    """
    if not len(windows.episodes):
        return windows
    steps = len(query.rows)
    stride = min(1 + steps // _COARSE_STEPS, int((windows.spans[:, 1] - windows.spans[:, 0]).min()))
    thinned = query.smooth_for(steps)[::stride]
    pieces, _ = cut_around(
        windows.spans, [lanes[episode].smooth_for(steps) for episode in windows.episodes.tolist()], stride
    )
    costs = align_all(thinned, Offsets.of(thinned, pieces, windows.free).add_to(pieces), RANKING).costs
    costs[:sure] = -np.inf
    order = np.argsort(costs, kind="stable")
    free = windows.free[order]
    best = np.sort(np.concatenate([order[~free][:max_count], order[free][: max_count // 2]]))
    return Windows(windows.episodes[best], windows.spans[best], windows.free[best])
