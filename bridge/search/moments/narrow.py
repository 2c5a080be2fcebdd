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

_COARSE: Final = 16  # of a query, at most, that are compared while there are many candidates


def narrow(
    query: PreparedRows, windows: Windows, lanes: Mapping[int, PreparedRows], most: int, *, sure: int
) -> Windows:
    """Return the candidates that come nearest in a coarse alignment, `most` and half as many free ones at most.

    Rows tell more than vectors; but the first `sure`, nearest by vector, stay in any case.
    """
    if not len(windows.episodes):
        return windows
    every = min(1 + len(query.smooth) // _COARSE, int((windows.spans[:, 1] - windows.spans[:, 0]).min()))
    thinned = query.smooth[::every]
    cut, _ = cut_around(windows.spans, [lanes[episode].smooth for episode in windows.episodes.tolist()], every)
    costs = align_all(thinned, Offsets.of(thinned, cut, windows.free).taken_from(cut), RANKING).costs
    costs[:sure] = -np.inf
    order = np.argsort(costs, kind="stable")
    free = windows.free[order]
    best = np.sort(np.concatenate([order[~free][:most], order[free][: most // 2]]))
    return Windows(windows.episodes[best], windows.spans[best], windows.free[best])
