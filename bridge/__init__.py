"""Joins files, embeddings, catalog and index: ingest with TrajectoryIngestor, search with TrajectoryRetriever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from bridge.archive import Archive, open_archive
    from bridge.index.base import Answer, Match, Point, Request, VectorIndex
    from bridge.ingest.ingestor import IngestReport, TrajectoryIngestor
    from bridge.quality.check import Checkup, check_episodes
    from bridge.results import EpisodeRef, Hits
    from bridge.search.moments.overlap import without_overlaps
    from bridge.search.retriever import TrajectoryRetriever

__all__ = [
    "Answer",
    "Archive",
    "Checkup",
    "EpisodeRef",
    "Hits",
    "IngestReport",
    "Match",
    "Point",
    "Request",
    "TrajectoryIngestor",
    "TrajectoryRetriever",
    "VectorIndex",
    "check_episodes",
    "open_archive",
    "without_overlaps",
]

__getattr__ = importer(
    "bridge",
    {
        "Answer": "bridge.index.base",
        "Archive": "bridge.archive",
        "Checkup": "bridge.quality.check",
        "EpisodeRef": "bridge.results",
        "Hits": "bridge.results",
        "IngestReport": "bridge.ingest.ingestor",
        "Match": "bridge.index.base",
        "Point": "bridge.index.base",
        "Request": "bridge.index.base",
        "TrajectoryIngestor": "bridge.ingest.ingestor",
        "TrajectoryRetriever": "bridge.search.retriever",
        "VectorIndex": "bridge.index.base",
        "check_episodes": "bridge.quality.check",
        "open_archive": "bridge.archive",
        "without_overlaps": "bridge.search.moments.overlap",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
