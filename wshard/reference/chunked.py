"""Chunked episodes: import path of the reference package."""

from __future__ import annotations

from wshard.core.chunks.manifest import ChunkManifest, validate_chunk_continuity
from wshard.core.chunks.reader import ChunkedEpisodeReader
from wshard.core.chunks.writer import ChunkedEpisodeWriter
from wshard.core.container.layout import ROLE_MANIFEST

__all__ = [
    "ROLE_MANIFEST",
    "ChunkManifest",
    "ChunkedEpisodeReader",
    "ChunkedEpisodeWriter",
    "validate_chunk_continuity",
]
