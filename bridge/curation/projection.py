"""Episodes as points of a plane: by principal components, or by a stored layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.curation.archive_vectors import read_chosen_vectors
from bridge.curation.layouts import choose_whole_space, compute_layout, load_layout
from wshard.errors import QueryError

if TYPE_CHECKING:
    from bridge.archive import Archive
    from bridge.curation.arrays import Floats, Vectors
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from embedders.space import Space

_SAMPLE: Final = 20_000  # vectors that give the directions


@dataclass(frozen=True, eq=False)
class Projection:
    """Episodes and their positions, float64 [M, 2].

    share: fraction of the variance that the plane explains, None for layouts other than "pca". stale: the vectors have
    changed since the layout was computed.
    """

    space: Space
    episodes: tuple[EpisodeRow, ...]
    places: Floats
    share: float | None
    stale: bool = False


def project_episodes(
    archive: Archive, where: Where | str = "", *, space: str | None = None, method: str = "pca"
) -> Projection:
    """Return the episodes that match the filter as points of a plane.

    method: "pca" projects their vectors onto the first two principal components; "tsne", "umap" and "pacmap" lay out
    all episodes of the Space, and store the result until vectors change. space: a fingerprint prefix; None = see
    archive_vectors.choose_space. Raises QueryError, FilterError, MissingExtraError.
    """
    if method != "pca":
        projection = find_projection(archive, where, space=space, method=method)
        if projection is None or projection.stale:
            compute_layout(archive, choose_whole_space(archive, space), method)
            projection = find_projection(archive, where, space=space, method=method)
        if projection is None:
            raise QueryError("expected a stored layout: its file was removed just now")
        return projection
    chosen = read_chosen_vectors(archive, where, space)
    places, share = project_vectors(chosen.directions)
    return Projection(chosen.space, chosen.episodes, places, share)


def find_projection(archive: Archive, where: Where | str, *, space: str | None, method: str) -> Projection | None:
    """Return the episodes that match as points of the stored layout, which may be stale; None if there is none."""
    chosen = choose_whole_space(archive, space)
    layout = load_layout(archive, chosen, method)
    if layout is None:
        return None
    rows = archive.catalog.episodes.rows(set(archive.catalog.query.ids(where)) & set(layout.ids.tolist()))
    shown = np.isin(layout.ids, [*rows])
    episodes = tuple(rows[number] for number in layout.ids[shown].tolist())
    return Projection(chosen, episodes, layout.places[shown], None, layout.stale)


def project_vectors(vectors: Vectors) -> tuple[Floats, float]:
    """Return the first two principal components [N, 2] of vectors [N, E], and their share of the variance."""
    stride = max(1, len(vectors) // _SAMPLE)
    sample = vectors[::stride].astype(np.float64)
    mean = sample.mean(axis=0)
    centred = sample - mean
    is_wide = len(centred) < centred.shape[1]  # then the Gram matrix is smaller, with the same eigenvalues
    values, directions = np.linalg.eigh(centred @ centred.T if is_wide else centred.T @ centred)
    axes = (centred.T @ directions if is_wide else directions)[:, ::-1][:, :2]
    axes = axes / np.maximum(np.linalg.norm(axes, axis=0), 1e-300)
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])] < 0, -1.0, 1.0)  # fixes the sign
    places = (vectors - mean) @ axes
    if places.shape[1] < 2:
        places = np.concatenate([places, np.zeros((len(places), 2 - places.shape[1]))], axis=1)
    total = float(values.sum())
    return places, float(values[::-1][:2].sum() / total) if total > 0 else 1.0
