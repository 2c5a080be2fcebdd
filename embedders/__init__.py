"""Embedders: arrays in, vectors out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedders.base import Embedder, unit_rows, validate_windows
from embedders.image.frames import Frames
from embedders.registry import DEFAULT_EMBEDDER, EMBEDDERS, as_embedder, embedder_of, make_embedder
from embedders.space import LaneSpec, Space, Statistics, check_same_space
from embedders.statistics import Moments, drift, merge
from embedders.trajectory.arc import ArcDct
from embedders.trajectory.blocks import Blocks
from embedders.trajectory.combine import Combo, Combo2
from embedders.trajectory.pooled import Mean, PooledCallable, Stats
from embedders.trajectory.spectral import Dct
from embedders.windows import BOTH, WindowPlan
from wshard.lazy import importer

if TYPE_CHECKING:
    from embedders.neural.torch_module import Pictures, TorchModule

__all__ = [
    "BOTH",
    "DEFAULT_EMBEDDER",
    "EMBEDDERS",
    "ArcDct",
    "Blocks",
    "Combo",
    "Combo2",
    "Dct",
    "Embedder",
    "Frames",
    "LaneSpec",
    "Mean",
    "Moments",
    "Pictures",
    "PooledCallable",
    "Space",
    "Statistics",
    "Stats",
    "TorchModule",
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

__getattr__ = importer("embedders", dict.fromkeys(("Pictures", "TorchModule"), "embedders.neural.torch_module"))


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted({*globals(), *__all__})
