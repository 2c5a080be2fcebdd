"""Joins files, embeddings, catalog and index: ingest with TrajectoryIngestor, search with TrajectoryRetriever."""

from wshard.core.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
