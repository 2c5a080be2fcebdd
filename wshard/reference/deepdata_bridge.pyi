from typing import Final

from bridge.ingest.ingestor import TrajectoryIngestor as TrajectoryIngestor
from bridge.results import EpisodeRef as EpisodeRef
from bridge.search.retriever import TrajectoryRetriever as TrajectoryRetriever

COLLECTION_EPISODES: Final[str]
COLLECTION_TIMESTEPS: Final[str]
