"""Chunked episodes: one episode in many files, listed by a manifest."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wshard.core.chunks.file import ChunkedEpisodeFile
from wshard.core.chunks.manifest import (
    ChunkManifest,
    read_manifest,
    validate_chunk_continuity,
)
from wshard.core.chunks.split import join
from wshard.core.container.layout import ROLE_MANIFEST
from wshard.core.container.reader import ShardReader
from wshard.core.episode.file import EpisodeFile
from wshard.core.files.file_object import OpenFilePlace
from wshard.core.files.listed import name_missing_file, place_inside
from wshard.core.files.schemes import place_of
from wshard.errors import ChecksumError, ManifestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard.core.chunks.manifest import Chunk
    from wshard.core.episode.protocol import EpisodeReader
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.types import Episode


class ChunkedEpisodeReader:
    """Read a chunked episode: chunk by chunk, lazily as one file (open), or completely (load).

    A chunk file is compared with its SHA-256 before its data is used for the first time, unless hashed is False; the
    checksums of blocks are verified in any case.
    """

    def __init__(self, manifest_path: Location, *, hashed: bool = True) -> None:
        self.place = place_of(manifest_path)
        self.folder = self.place.parent
        self.manifest: ChunkManifest | None = None
        self._hashed = hashed
        self._verified: set[str] = set()

    @property
    def manifest_path(self) -> Path:
        """The path of the manifest; raises FormatError for one that is not on a local disk."""
        return Path(self.place.local_path())

    def load_manifest(self) -> ChunkManifest:
        """Read the manifest again; raises ManifestError if a chunk is listed twice, FileNotFoundError."""
        manifest = read_manifest(self.place)
        rows = manifest.rows()
        if len({row.index for row in rows}) != len(rows):
            raise ManifestError(f"{self.place}: chunk_index has gaps or duplicates: a chunk is listed twice")
        self.manifest = manifest
        return manifest

    @property
    def total_timesteps(self) -> int:
        """T of the whole episode."""
        return self._manifest.total_timesteps

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        return len(self._manifest.chunks)

    @property
    def _manifest(self) -> ChunkManifest:
        return self.manifest or self.load_manifest()

    def iter_chunks(self) -> Iterator[Episode]:
        """Yield the chunks in order, loading each on demand; chunk fields are those of the manifest."""
        for row in self._manifest.rows():
            yield self._load(row)

    def load_chunk(self, chunk_index: int) -> Episode:
        """Return one chunk; raises ManifestError for an unknown index, MissingFileError, ChecksumError."""
        row = next((row for row in self._manifest.rows() if row.index == chunk_index), None)
        if row is None:
            raise ManifestError(f"{self.place}: no chunk {chunk_index}, it lists {self.num_chunks}")
        return self._load(row)

    def open(self) -> ChunkedEpisodeFile:
        """Open all chunks as one lazy episode; raises ManifestError if chunks are missing."""
        return ChunkedEpisodeFile(self)

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Return the whole episode, equal to the one that was written in chunks; channels as in load_wshard.

        Raises ManifestError if chunks are missing (MissingFileError if their files are), LaneError if they are
        inconsistent.
        """
        manifest = self._manifest
        validate_chunk_continuity(manifest)
        rows = manifest.rows()
        if not rows:
            raise ManifestError(f"{self.place}: expected at least one chunk, found none")
        joined = join([self._load(row, channels) for row in rows])
        first, end = rows[0].start, rows[-1].stop
        return replace(
            joined,
            id=manifest.episode_id,
            env_id=manifest.env_id or joined.env_id,
            timestep_range=[first, end - 1] if first else None,
        )

    def open_chunk(self, row: Chunk, *, hashed: bool = True) -> EpisodeFile:
        """Open the file of a manifest row and check its length and, unless hashed is False, its SHA-256.

        Raises MissingFileError, ManifestError for a wrong length or a link out of the folder, ChecksumError and other
        FormatErrors.
        """
        place = place_inside(self.folder, row.uri, str(self.place))
        with name_missing_file(self.place, place):
            if hashed and self._hashed:
                self._compare_hash(row, place)
            file = EpisodeFile(place)
        if file.length != row.length:
            found_length = file.length
            file.close()
            raise ManifestError(f"{place}: expected the manifest's {row.length} timesteps, found {found_length}")
        return file

    def verify_chunk(self, row: Chunk) -> None:
        """Compare a chunk with its SHA-256 or, if the manifest has none, its blocks with their checksums.

        Raises ChecksumError and other FormatErrors, MissingFileError.
        """
        place = place_inside(self.folder, row.uri, str(self.place))
        with name_missing_file(self.place, place):
            self._compare_hash(row, place)
        with self.open_chunk(row) as file:
            if not row.sha256:
                file.verify()

    def manifest_digest(self) -> str:
        """Return the content digest of the manifest's file."""
        with ShardReader(self.place) as shard:
            return shard.digest()

    def _compare_hash(self, row: Chunk, place: Place) -> None:
        if not row.sha256 or row.uri in self._verified:
            return
        found = hash_file(place)
        if found != row.sha256:
            raise ChecksumError(f"{place}: SHA-256 mismatch: the manifest says {row.sha256}, the file has {found}")
        self._verified.add(row.uri)

    def _load(self, row: Chunk, channels: Sequence[str] | None = None) -> Episode:
        with self.open_chunk(row) as file:
            ep = file.load(channels)
        total = max(self.num_chunks, row.index + 1)
        return replace(ep, chunk_index=row.index, total_chunks=total, timestep_range=[row.start, row.stop - 1])


def open_episode_file(location: Location, *, hashed: bool = True) -> EpisodeReader:
    """Open an episode file, a file object with the bytes of one, or the manifest of a chunked episode, lazily.

    hashed: compare each chunk with its SHA-256 before its data is used, which reads all of it; the checksums of blocks
    are compared either way. Raises FormatError and its subclasses (ManifestError if chunks are inconsistent),
    FileNotFoundError.
    """
    place = place_of(location)
    shard = ShardReader(place)
    if shard.header.role != ROLE_MANIFEST or isinstance(place, OpenFilePlace):  # chunks are in a folder
        return EpisodeFile(shard)
    shard.close()
    return ChunkedEpisodeReader(place, hashed=hashed).open()


def hash_file(location: Location) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with place_of(location).open() as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
