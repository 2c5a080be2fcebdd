"""The import path that the format's documents name for ingestor and retriever.

They are in the package `bridge`, imported on use, so that files can be read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wshard.lazy import importer

if TYPE_CHECKING:
    from bridge.ingest.ingestor import TrajectoryIngestor
    from bridge.results import EpisodeRef
    from bridge.search.retriever import TrajectoryRetriever

__all__ = ["COLLECTION_EPISODES", "COLLECTION_TIMESTEPS", "EpisodeRef", "TrajectoryIngestor", "TrajectoryRetriever"]

COLLECTION_EPISODES: Final = "traj_episodes"
COLLECTION_TIMESTEPS: Final = "traj_timesteps"
"""Where the format's reference package keeps its vectors; ours go into one collection per space."""

__getattr__ = importer(
    "wshard.deepdata_bridge", dict.fromkeys(("EpisodeRef", "TrajectoryIngestor", "TrajectoryRetriever"), "bridge")
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
