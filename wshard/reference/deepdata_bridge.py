"""The import path that the format's documents name for ingestor and retriever.

They are in the package `bridge`, imported on use, so that files can be read without it.
"""

from typing import Final

from wshard.core.lazy import exports

COLLECTION_EPISODES: Final = "traj_episodes"
COLLECTION_TIMESTEPS: Final = "traj_timesteps"
"""Where the format's reference package keeps its vectors; ours go into one collection per space."""

__getattr__, __dir__, __all__ = exports(__name__, __file__)
