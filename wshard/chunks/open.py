"""Open an episode of this project, in one file or in chunks with a manifest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wshard.chunks.reader import ChunkedEpisodeReader
from wshard.container.layout import ROLE_MANIFEST
from wshard.container.reader import ShardReader
from wshard.episode.file import EpisodeFile

if TYPE_CHECKING:
    from wshard.container.byte_source import PathOrFile
    from wshard.episode.protocol import EpisodeReader


def open_episode_file(path: PathOrFile, *, hashed: bool = True) -> EpisodeReader:
    """Open an episode file, a file object with the bytes of one, or the manifest of a chunked episode, lazily.

    hashed: compare each chunk with its SHA-256 before its data is used, which reads all of it; the checksums of blocks
    are compared either way. Raises FormatError and its subclasses (ManifestError where chunks do not fit together),
    FileNotFoundError.
    """
    shard = ShardReader(path)
    if shard.header.role != ROLE_MANIFEST or not isinstance(path, (str, os.PathLike)):  # chunks lie beside a path
        return EpisodeFile(shard)
    shard.close()
    return ChunkedEpisodeReader(path, hashed=hashed).open()
