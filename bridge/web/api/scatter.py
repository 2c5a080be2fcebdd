"""Routes of the map: episodes as points of a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.curation.labels import labels_of
from bridge.curation.projection import project_episodes
from bridge.spaces.identity import describe
from bridge.web.api.listing import WHERE
from bridge.web.endpoints import ApiCall, Endpoint, Parameter

if TYPE_CHECKING:
    from bridge.curation.projection import Projection

_MOST_POINTS: Final = 200_000
_SIDE: Final = 400  # cells of an aggregated map, in either direction


def show_map(call: ApiCall) -> dict[str, Any]:
    """Return the episodes that pass a filter as points of a plane; of more than 200,000, one for each cell of it.

    labels: the values of the field `colour`, by the number that each point has of it; counts: episodes of each point.
    """
    asked = ("map", call["where"], call["space"], call["colour"])
    found: dict[str, Any] = call.archive.remember(asked, lambda: _project(call))
    return found


def _project(call: ApiCall) -> dict[str, Any]:
    found = project_episodes(call.archive.archive, call["where"], space=call["space"])
    chosen, counts = _thin(found)
    rows = [found.episodes[place] for place in chosen]
    values = labels_of(call.archive.archive, rows, call["colour"]) if call["colour"] else [None] * len(rows)
    labels = sorted({value for value in values if value is not None}, key=_order)
    number = {value: place for place, value in enumerate(labels)}
    places = found.places[chosen]
    return {
        "uids": [row.uid for row in rows],
        "episode_ids": [row.episode_id for row in rows],
        "x": np.round(places[:, 0], 5).tolist(),
        "y": np.round(places[:, 1], 5).tolist(),
        "colours": [-1 if value is None else number[value] for value in values],
        "labels": labels,
        "counts": counts,
        "total": len(found.episodes),
        "share": found.share,
        "space": found.space.fingerprint,
        "about": describe(found.space),
    }


def _thin(found: Projection) -> tuple[list[int], list[int] | None]:
    """Return the places of the points that are shown, and how many episodes each stands for, None for one each."""
    if len(found.episodes) <= _MOST_POINTS:
        return list(range(len(found.episodes))), None
    low, high = found.places.min(axis=0), found.places.max(axis=0)
    cells = ((found.places - low) / np.maximum(high - low, 1e-12) * (_SIDE - 1)).astype(np.int64)
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
        "Episodes as points of the plane of their principal components",
        show_map,
        (
            WHERE,
            Parameter("space", "fingerprint prefix of the Space, if there are several"),
            Parameter("colour", "field to colour the points by", default="env"),
        ),
    ),
)
