"""Measures how much frames vary within episodes: the unit in which alignment compares images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import open_at
from bridge.episodes.read import Failure, attempt
from bridge.search.moments.lane_rows import read_window
from embedders.image.sketches import sketches
from embedders.space import Statistics

if TYPE_CHECKING:
    from bridge.pictures.features import FeatureFiles
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from embedders.space import Space

_SAMPLE: Final = 12  # episodes


def measure_frame_scale(catalog: Catalog, space: Space, features: FeatureFiles) -> Statistics:
    """Return statistics of sketches of the Space's images, one deviation for all channels, mean 0.

    It is that of the median episode of about 12, over all channels; those where nothing moves are not counted, and
    constant parts of the image add nothing. 1 if nothing moves or no file can be read.
    """
    space_id = next((row.id for row in catalog.vectors.spaces() if row.fingerprint == space.fingerprint), None)
    rows = {} if space_id is None else catalog.episodes.rows(catalog.vectors.sample(space_id, _SAMPLE)[:_SAMPLE])
    variances = [variance for row in rows.values() if (variance := _variance(row, space, features))]
    channels = sketches(np.zeros((1, *space.window_shape)), "a frame").shape[1]
    deviation = float(np.sqrt(np.median(variances))) if variances else 0.0
    return Statistics(max(1, len(variances)), np.zeros(channels), np.full(channels, deviation))


def _variance(row: EpisodeRow, space: Space, features: FeatureFiles) -> float | None:
    """Return the mean variance of the episode's sketches over time, None where its file cannot be read."""

    def measure() -> float:
        with open_at(row.address) as file:
            return float(sketches(read_window(file, row, space, features), row.path).var(axis=0).mean())

    result = attempt(measure, row.address)
    return None if isinstance(result, Failure) else result
