"""Routes of the map: episodes as points of a plane."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.curation.labels import labels_of
from bridge.curation.layouts import METHODS, choose_whole_space, compute_layout, is_installed
from bridge.curation.projection import find_projection, project_episodes
from bridge.present.jobs import present_job
from bridge.spaces.identity import describe
from bridge.web.api.listing import WHERE
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from catalog.filters.fields import field_of
from catalog.query.differences import find_differences
from wshard.core.messages import how_to_install

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.archive import Archive
    from bridge.curation.projection import Projection
    from bridge.support.progress import Progress
    from bridge.web.served import ServedArchive
    from catalog.records import EpisodeRow
    from embedders.space import Space

_MOST_POINTS: Final = 200_000
_READING: Final = frozenset({"format", "folder", "path", "review"})  # tell how an episode is stored or judged
_SAMPLE: Final = 2000  # episodes whose labels choose the colours
_SIDE: Final = 400  # cells of an aggregated map, in either direction


def show_map(call: ApiCall) -> dict[str, Any]:
    """Return the episodes that pass a filter as points of a plane; of more than 200,000, one for each cell of it.

    labels: the values of the field `colour`, by the number that each point has of it; counts: episodes of each point;
    matching: episodes that pass the filter, of which `total` have vectors of the Space.
    stale: vectors have changed since the layout was computed. A layout that is not stored: the job that computes it.
    """
    archive, method = call.archive, call["method"]
    if method == "pca":
        key = ("map", call["where"], call["space"], call["colour"])
        points: dict[str, Any] = archive.remember(
            key,
            lambda: _present(call, project_episodes(archive.archive, call["where"], space=call["space"])),
        )
        return points
    stored = find_projection(archive.archive, call["where"], space=call["space"], method=method)
    if stored is not None and not call["fresh"]:
        return _present(call, stored)
    call.check_may_compute(f"the layout {method}", "`bridge.curation.project_episodes`")
    space = choose_whole_space(archive.archive, call["space"])
    kind = f"map {method} {space.fingerprint[:12]}"
    work = partial(_compute, archive, space, method)
    return {"job": present_job(archive.jobs.start(kind, work, who=call.account.name))}


def _compute(archive: ServedArchive, space: Space, method: str, progress: Progress) -> dict[str, str]:
    compute_layout(archive.archive, space, method, progress=progress)
    return {"space": space.fingerprint}


def _present(call: ApiCall, projection: Projection) -> dict[str, Any]:
    chosen, counts = _thin(projection)
    rows = [projection.episodes[place] for place in chosen]
    colour = call["colour"] or _choose_colour(call.archive.archive, rows[:: max(1, len(rows) // _SAMPLE)])
    values = labels_of(call.archive.archive, rows, colour)
    labels = sorted({value for value in values if value is not None}, key=_order)
    number = {value: place for place, value in enumerate(labels)}
    places = projection.places[chosen]
    return {
        "uids": [row.uid for row in rows],
        "episode_ids": [row.episode_id for row in rows],
        "x": np.round(places[:, 0], 5).tolist(),
        "y": np.round(places[:, 1], 5).tolist(),
        "colours": [-1 if value is None else number[value] for value in values],
        "colour": colour,
        "labels": labels,
        "counts": counts,
        "total": len(projection.episodes),
        "matching": call.archive.catalog.query.count(call["where"]),
        "share": projection.share,
        "stale": projection.stale,
        "not_installed": {name: how_to_install("map") for name in METHODS if not is_installed(name)},
        "space": projection.space.fingerprint,
        "about": describe(projection.space),
    }


def _choose_colour(archive: Archive, rows: Sequence[EpisodeRow]) -> str:
    """Return the field by whose labels most pairs of these episodes differ; what has no label differs from nothing.

    Fields that tell how episodes are stored are chosen where no other tells them apart.
    """

    def count_alike(field: str) -> int:
        labels = Counter(labels_of(archive, rows, field))
        return sum(count**2 for label, count in labels.items() if label is not None) + labels[None] * len(rows)

    facets = [name for name in find_differences(archive.catalog.query, rows).facets if not field_of(name).many]
    content = [name for name in facets if name not in _READING]
    alike = {name: count_alike(name) for name in (*content, *(name for name in facets if name in _READING))}
    telling = [name for name in content if alike[name] < len(rows) ** 2]
    return min(telling or alike, key=lambda name: alike[name])


def _thin(projection: Projection) -> tuple[list[int], list[int] | None]:
    """Return the places of the points that are shown, and how many episodes each stands for, None for one each."""
    if len(projection.episodes) <= _MOST_POINTS:
        return list(range(len(projection.episodes))), None
    low, high = projection.places.min(axis=0), projection.places.max(axis=0)
    cells = ((projection.places - low) / np.maximum(high - low, 1e-12) * (_SIDE - 1)).astype(np.int64)
    _, first, counts = np.unique(cells[:, 0] * _SIDE + cells[:, 1], return_index=True, return_counts=True)
    return first.tolist(), counts.tolist()


def _order(text: str) -> tuple[int, float, str]:
    """Sort numbers by their size, before other labels."""
    try:
        return 0, float(text), ""
    except ValueError:
        return 1, 0.0, text


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/map",
        "Episodes as points of a plane: by principal components, or by a layout that a job computes and stores",
        show_map,
        (
            WHERE,
            Parameter("space", "fingerprint prefix of the Space, if there are several"),
            Parameter("colour", "field to colour the points by. Default: one in which they differ"),
            Parameter("method", "pca, tsne, umap or pacmap (all but the first by the extra `map`)", default="pca"),
            Parameter("fresh", "compute the layout again", bool, default=False),
        ),
    ),
)
