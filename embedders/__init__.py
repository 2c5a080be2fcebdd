"""Embedders: arrays in, vectors out."""

from __future__ import annotations

from embedders.base import Embedder, unit_rows, validate_windows
from embedders.image.frames import Frames
from embedders.registry import DEFAULT_EMBEDDER, EMBEDDERS, as_embedder, embedder_of, make_embedder
from embedders.space import LaneSpec, Space, Statistics, check_same_space
from embedders.statistics import Moments, drift, merge
from embedders.trajectory.arc import ArcDct
from embedders.trajectory.combine import Combo, Combo2
from embedders.trajectory.pooled import Mean, PooledCallable, Stats
from embedders.trajectory.spectral import Dct
from embedders.windows import WindowPlan

__all__ = [
    "DEFAULT_EMBEDDER",
    "EMBEDDERS",
    "ArcDct",
    "Combo",
    "Combo2",
    "Dct",
    "Embedder",
    "Frames",
    "LaneSpec",
    "Mean",
    "Moments",
    "PooledCallable",
    "Space",
    "Statistics",
    "Stats",
    "WindowPlan",
    "as_embedder",
    "check_same_space",
    "drift",
    "embedder_of",
    "make_embedder",
    "merge",
    "unit_rows",
    "validate_windows",
]
