"""Splits the similarity of a query and a hit into what each lane contributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedders.base import shares_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.index.base import Vectors
    from embedders.base import Embedder
    from embedders.space import Space


def split_by_lane(embedder: Embedder, space: Space, query: Vectors, hit: Vectors) -> dict[str, float]:
    """Return the contribution of each lane, by block name, to the cosine of two unit vectors [E], which is their sum.

    A contribution is negative if the lane lowers the similarity. Empty for an embedder whose values depend on all
    channels together (networks, functions).
    """
    shares = shares_of(embedder, space.channels)
    if shares is None:
        return {}
    channels = (query.astype(np.float64) * hit) @ shares
    edges = np.cumsum([lane.channels for lane in space.lanes])[:-1]
    return {lane.name: float(part.sum()) for lane, part in zip(space.lanes, np.split(channels, edges), strict=True)}


def average_parts(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the contributions of lanes to the mean of several cosines, from those to each; {} if one has none."""
    if not all(parts):
        return {}
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0.0) for part in parts) / len(parts) for name in names}
