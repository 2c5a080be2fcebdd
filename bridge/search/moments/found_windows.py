"""Windows returned by the index, and the selection of those to refine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.results import make_ref
from bridge.search.moments.overlap import MomentLimits, suppress
from bridge.search.moments.refine import Windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints
    from bridge.results import EpisodeRef
    from catalog.records import EpisodeRow
    from embedders.space import Space

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

    def take(self, chosen: NDArray[np.bool_]) -> FoundWindows:
        """Return those of the windows that are chosen [n]."""
        return replace(self, episodes=self.episodes[chosen], spans=self.spans[chosen], scores=self.scores[chosen])

    def select(self, limits: MomentLimits) -> FoundWindows:
        """Return the best that do not overlap, of episodes whose files exist; no other files are looked for."""

        def has_file(episode: int) -> bool:
            if episode in self.missing or locations.exists(self.rows[episode].address):
                return episode not in self.missing
            self.missing.add(episode)
            return False

        with OpenLocations() as locations:
            places = suppress(self.episodes, self.spans, limits, has_file)
        return FoundWindows(self.episodes[places], self.spans[places], self.scores[places], self.rows, self.missing)

    def make_refs(self, space: Space) -> list[EpisodeRef]:
        """Return them as hits of a Space."""
        spans, names = self.spans.tolist(), tuple(lane.name for lane in space.lanes)
        return [
            make_ref(self.rows[episode], score, (span[0], span[1]), names)
            for episode, span, score in zip(self.episodes.tolist(), spans, self.scores.tolist(), strict=True)
        ]


def select_candidates(windows: FoundWindows, limits: MomentLimits, max_count: int) -> Windows:
    """Return the windows to refine: the best ones that do not overlap too much."""
    per_episode = None if limits.per_episode is None else 2 * limits.per_episode
    near = MomentLimits(_COARSE_FACTOR * max_count, max(_MIN_OVERLAP, limits.max_overlap), per_episode)
    places = suppress(windows.episodes, windows.spans, near)
    return Windows(windows.episodes[places], windows.spans[places], np.zeros(len(places), np.bool_))
