"""An episode at a path, whether it lies in one file or in chunks beside a manifest.

Knows: which of the two a path holds; nobody else needs to. Does not know: what is in either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from wshard.chunks.file import ChunkedEpisodeFile
from wshard.chunks.reader import ChunkedEpisodeReader
from wshard.container.layout import ROLE_MANIFEST
from wshard.container.reader import ShardReader
from wshard.episode.file import EpisodeFile

if TYPE_CHECKING:
    import os

OpenEpisode: TypeAlias = EpisodeFile | ChunkedEpisodeFile
"""What both have: id, env_id, length, timebase, metadata, where, lanes, has, lane, lane_view and [], load, slice,
total_reward, digest, stored, parts, part_digests, is_chunk, verify."""


def open_episode(path: str | os.PathLike[str], *, hashed: bool = True) -> OpenEpisode:
    """Open an episode file, or the manifest of a chunked episode, lazily.

    hashed: compare each chunk with its SHA-256 before its data is used, which reads all of it; the checksums of blocks
    are compared either way. Raises FormatError and its subclasses (ManifestError where chunks do not fit together),
    FileNotFoundError.
    """
    shard = ShardReader(path)
    if shard.header.role != ROLE_MANIFEST:
        return EpisodeFile(shard)
    shard.close()
    return ChunkedEpisodeReader(path, hashed=hashed).open()
