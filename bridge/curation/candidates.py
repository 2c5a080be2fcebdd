"""Vectors that lie near one another, of one set of episodes or of two: what files then confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bridge.curation.archive_vectors import hold
from bridge.curation.neighbours import near_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from bridge.curation.archive_vectors import Held
    from bridge.curation.projection import Floats, Ids
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from embedders.space import Space


def candidates(
    archive: Archive,
    spaces: Iterable[Space],
    sets: Sequence[Where | str],
    *,
    nearest: int,
    farthest: float,
    progress: Progress | None,
) -> Iterator[tuple[tuple[Held, Held], Floats, Ids]]:
    """Yield for each Space what it holds of the first and the last set, and the pairs that are near each other.

    sets: one set of episodes, which is compared with itself, or two. A pair is near where one is among the `nearest` of
    the other, at a distance of at most `farthest`: distances [n], and places [n, 2] in either. Windows of one episode
    are no pair.
    """
    for space in spaces:
        held = [hold(archive, space, where) for where in sets]
        mine, others = held[0], held[-1]
        among = None if mine is others else others.directions
        owners = None if space.windows.whole else (_ids(mine), _ids(others))
        apart, pairs = near_pairs(mine.directions, among, nearest, farthest, owners=owners, progress=progress)
        yield (mine, others), apart, pairs


def _ids(held: Held) -> Ids:
    """Return the id of the episode of each vector."""
    return np.array([row.id for row in held.episodes], np.int64)[held.owners]
