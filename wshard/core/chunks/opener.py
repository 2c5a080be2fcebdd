"""The interface by which a lazily opened chunked episode opens, checks and loads its chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.chunks.manifest import Chunk, ChunkManifest
    from wshard.core.episode.file import EpisodeFile
    from wshard.core.files.place import Place
    from wshard.core.types import Episode


class ChunkOpener(Protocol):
    """Opens, checks and loads the chunks that a manifest lists."""

    place: Place
    folder: Place
    manifest: ChunkManifest | None

    def load_manifest(self) -> ChunkManifest:
        """Read the manifest again."""

    def manifest_digest(self) -> str:
        """Return the content digest of the manifest's file."""

    def open_chunk(self, row: Chunk, *, hashed: bool = True) -> EpisodeFile:
        """Open the file of a manifest row, checked against its length and, unless hashed is False, its SHA-256."""

    def verify_chunk(self, row: Chunk) -> None:
        """Compare a chunk with its SHA-256 or, where the manifest has none, its blocks with their checksums."""

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Return the whole episode, or the named channels of it."""
