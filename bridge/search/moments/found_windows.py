"""Windows that the index found, and the choice of those that are refined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.search.moments.overlap import MomentLimits, suppress
from bridge.search.moments.refine import Windows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints
    from bridge.search.moments.lane_rows import PreparedRows
    from catalog.records import EpisodeRow

_MORE: Final = 3  # times as many windows are compared coarsely as are refined
_CROWDED: Final = 0.5  # overlap above which the better of two windows stands for both


@dataclass(frozen=True, eq=False)
class FoundWindows:
    """Windows of episodes, best first: ids [n], spans [n, 2], scores [n]; gone: the episodes seen without a file."""

    episodes: Ints
    spans: Ints
    scores: NDArray[np.float64]
    rows: Mapping[int, EpisodeRow]
    gone: set[int]

    def select(self, limits: MomentLimits, missing: Collection[int] | None = None) -> FoundWindows:
        """Return the best that do not overlap, of episodes that are not missing.

        missing: episodes without a file; None: to be looked for, of the best alone.
        """

        def is_there(episode: int) -> bool:
            if episode in self.gone or locations.exists(self.rows[episode].address):
                return episode not in self.gone
            self.gone.add(episode)
            return False

        with OpenLocations() as locations:
            known = is_there if missing is None else (lambda episode: episode not in missing) if missing else None
            places = suppress(self.episodes, self.spans, limits, known)
        return FoundWindows(self.episodes[places], self.spans[places], self.scores[places], self.rows, self.gone)


def select_candidates(
    windows: FoundWindows,
    shifted: FoundWindows,
    limits: MomentLimits,
    most: int,
    loaded: tuple[Mapping[int, PreparedRows], set[int]],
) -> Windows:
    """Return the windows to refine; loaded: rows by episode, and the episodes whose files are gone or changed."""
    lanes, stale = loaded
    each = None if limits.per_episode is None else 2 * limits.per_episode
    apart = max(_CROWDED, limits.max_overlap)
    tried = windows.select(MomentLimits(_MORE * most, apart, each), stale)
    offset = shifted.select(MomentLimits(most // 2, apart, each), stale)
    episodes = np.concatenate([tried.episodes, offset.episodes])
    spans = np.concatenate([tried.spans, offset.spans])
    present = np.array([episode in lanes for episode in episodes.tolist()], np.bool_)
    free = np.arange(len(episodes)) >= len(tried.episodes)
    return Windows(episodes[present], spans[present], free[present])
