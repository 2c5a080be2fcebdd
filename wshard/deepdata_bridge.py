"""The import path that the format's documents name for ingestor and retriever.

Knows: the names. Everything else is in the package `bridge`, imported on use, so that files can be read without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridge.ingest import TrajectoryIngestor
    from bridge.refs import EpisodeRef
    from bridge.retrieve import TrajectoryRetriever

__all__ = ["EpisodeRef", "TrajectoryIngestor", "TrajectoryRetriever"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'wshard.deepdata_bridge' has no attribute {name!r}")
    return getattr(import_module("bridge"), name)
