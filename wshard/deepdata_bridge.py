"""The import path that the format's documents name for ingestor and retriever.

Knows: the names. Everything else is in the package `bridge`, imported on use, so that files can be read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazily import importer

if TYPE_CHECKING:
    from bridge.ingest import TrajectoryIngestor
    from bridge.refs import EpisodeRef
    from bridge.retrieve import TrajectoryRetriever

__all__ = ["EpisodeRef", "TrajectoryIngestor", "TrajectoryRetriever"]

__getattr__ = importer("wshard.deepdata_bridge", dict.fromkeys(__all__, "bridge"))
