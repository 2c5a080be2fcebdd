"""Chunked episodes: import path of the reference package."""

from __future__ import annotations

from wshard.chunks.manifest import ChunkManifest, validate_chunk_continuity
from wshard.chunks.reader import ChunkedEpisodeReader
from wshard.chunks.writer import ChunkedEpisodeWriter
from wshard.container.layout import ROLE_MANIFEST

__all__ = [
    "ROLE_MANIFEST",
    "ChunkManifest",
    "ChunkedEpisodeReader",
    "ChunkedEpisodeWriter",
    "validate_chunk_continuity",
]
