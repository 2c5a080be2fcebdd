"""Windows returned by the index, and the selection of those to refine."""

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

_COARSE_FACTOR: Final = 3  # windows compared coarsely per window refined
_MIN_OVERLAP: Final = 0.5  # overlap above which only the better of two windows is kept, at least


@dataclass(frozen=True, eq=False)
class FoundWindows:
    """Windows of episodes, best first: episodes [n], spans [n, 2], scores [n]; missing: episodes without a file."""

    episodes: Ints
    spans: Ints
    scores: NDArray[np.float64]
    rows: Mapping[int, EpisodeRow]
    missing: set[int]

    def select(self, limits: MomentLimits, stale: Collection[int] | None = None) -> FoundWindows:
        """Return the best that do not overlap, of episodes whose files are unchanged.

        stale: episodes whose files are missing or changed; None: look for the files, of the best windows alone.
        """

        def has_file(episode: int) -> bool:
            if episode in self.missing or locations.exists(self.rows[episode].address):
                return episode not in self.missing
            self.missing.add(episode)
            return False

        with OpenLocations() as locations:
            is_eligible = has_file if stale is None else (lambda episode: episode not in stale) if stale else None
            places = suppress(self.episodes, self.spans, limits, is_eligible)
        return FoundWindows(self.episodes[places], self.spans[places], self.scores[places], self.rows, self.missing)


def select_candidates(
    windows: FoundWindows,
    shifted: FoundWindows,
    limits: MomentLimits,
    max_count: int,
    loaded_rows: tuple[Mapping[int, PreparedRows], set[int]],
) -> Windows:
    """Return the windows to refine; loaded_rows: rows by episode, and those without an unchanged file."""
    lanes, stale = loaded_rows
    per_episode = None if limits.per_episode is None else 2 * limits.per_episode
    max_overlap = max(_MIN_OVERLAP, limits.max_overlap)
    near = windows.select(MomentLimits(_COARSE_FACTOR * max_count, max_overlap, per_episode), stale)
    offset = shifted.select(MomentLimits(max_count // 2, max_overlap, per_episode), stale)
    episodes = np.concatenate([near.episodes, offset.episodes])
    spans = np.concatenate([near.spans, offset.spans])
    readable = np.array([episode in lanes for episode in episodes.tolist()], np.bool_)
    free = np.arange(len(episodes)) >= len(near.episodes)
    return Windows(episodes[readable], spans[readable], free[readable])
