"""Episodes as points of a plane: the two directions along which their vectors differ most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.curation.archive_vectors import read_chosen_vectors

if TYPE_CHECKING:
    from bridge.archive import Archive
    from bridge.curation.arrays import Floats, Vectors
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from embedders.space import Space

_SAMPLE: Final = 20_000  # vectors that give the directions


@dataclass(frozen=True, eq=False)
class Projection:
    """Episodes and their positions, float64 [M, 2]; share: fraction of the variance that the plane explains."""

    space: Space
    episodes: tuple[EpisodeRow, ...]
    places: Floats
    share: float


def project_episodes(archive: Archive, where: Where | str = "", *, space: str | None = None) -> Projection:
    """Project the vectors of the episodes that match the filter onto their first two principal components.

    space: a fingerprint prefix; None = see archive_vectors.choose_space. Raises QueryError, FilterError.
    """
    known = read_chosen_vectors(archive, where, space)
    places, share = project_vectors(known.directions)
    return Projection(known.space, known.episodes, places, share)


def project_vectors(vectors: Vectors) -> tuple[Floats, float]:
    """Return the first two principal components [N, 2] of vectors [N, E], and their share of the variance."""
    every = max(1, len(vectors) // _SAMPLE)
    sample = vectors[::every].astype(np.float64)
    mean = sample.mean(axis=0)
    values, directions = np.linalg.eigh(np.cov(sample - mean, rowvar=False).reshape(vectors.shape[1], -1))
    axes = directions[:, ::-1][:, :2]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])] < 0, -1.0, 1.0)  # one sign, always
    places = (vectors - mean) @ axes
    if places.shape[1] < 2:
        places = np.concatenate([places, np.zeros((len(places), 2 - places.shape[1]))], axis=1)
    total = float(values.sum())
    return places, float(values[::-1][:2].sum() / total) if total > 0 else 1.0
