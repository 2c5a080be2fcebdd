"""Chunked episodes: one episode in many files, beside a manifest that lists them.

Knows: how chunk files are named, numbered and hashed, and that the manifest on disk always lists whole chunks only.
Does not know: the manifest's bytes (manifest.py), how lanes are cut and joined (splitting.py).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wshard.arguments import integer, timesteps
from wshard.chunked_file import ChunkedEpisodeFile
from wshard.codec import CompressionLevel, CompressionType
from wshard.container import ShardReader
from wshard.episode_file import EpisodeFile, save_wshard
from wshard.errors import ChecksumError, EpisodeError, ManifestError
from wshard.layout import ROLE_MANIFEST
from wshard.manifest import (
    MANIFEST_SUFFIX,
    ChunkManifest,
    read_manifest,
    safe_name,
    validate_chunk_continuity,
    write_manifest,
)
from wshard.regular_file import named_in, open_file, within
from wshard.splitting import cut, join

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from wshard.codec_plan import Compression
    from wshard.manifest import Chunk
    from wshard.types import Episode

__all__ = [
    "ROLE_MANIFEST",
    "ChunkManifest",
    "ChunkedEpisodeReader",
    "ChunkedEpisodeWriter",
    "validate_chunk_continuity",
]


class ChunkedEpisodeWriter:
    """Write one episode as chunk files and a manifest into the folder base_path, which is created.

    chunk_size_t: timesteps per chunk. After every chunk the manifest on disk lists it, marked as not complete, so that
    a killed writer leaves a readable episode; resume=True goes on behind its last chunk. Without it, a chunked episode
    of the same id in that folder is replaced. File names are the episode id, or a plain form of it.
    """

    def __init__(  # noqa: PLR0913  (the signature of the format's reference package, plus one by keyword)
        self,
        base_path: str | os.PathLike[str],
        episode_id: str,
        chunk_size_t: int = 10000,
        env_id: str = "",
        compression: Compression = CompressionType.NONE,
        compression_level: int = CompressionLevel.DEFAULT,
        *,
        resume: bool = False,
    ) -> None:
        size = timesteps(chunk_size_t, "chunk_size_t", EpisodeError)
        self.base_path = Path(base_path)
        self.episode_id = episode_id
        self.chunk_size_t = size
        self.compression = compression
        self.compression_level = compression_level
        self.manifest = ChunkManifest(episode_id, env_id)
        self._stem = safe_name(episode_id)
        self._path = self.base_path / f"{self._stem}{MANIFEST_SUFFIX}"
        self.base_path.mkdir(parents=True, exist_ok=True)
        if resume and self._path.exists():
            self._resume()
        self._rows = {row.index: row for row in self.manifest.rows()}
        self._resumed = frozenset(self._rows)

    def _resume(self) -> None:
        found = read_manifest(self._path)
        if found.episode_id != self.episode_id:
            raise ManifestError(f"{self._path}: expected episode {self.episode_id!r}, found {found.episode_id!r}")
        found.env_id = found.env_id or self.manifest.env_id
        self.manifest = found

    def write_chunk(self, ep: Episode, chunk_index: int | None = None) -> Path:
        """Write the next chunk, or the one of that index, and list it in the manifest; returns its path.

        Its timesteps follow the chunk before it, unless ep.timestep_range says [first, last]. `ep` is not changed.
        Raises ManifestError for an index that is there already, EpisodeError for an inconsistent episode.
        """
        index = max(self._rows, default=-1) + 1 if chunk_index is None else integer(chunk_index)
        if index is None or index < 0 or index in self._rows:
            raise ManifestError(
                f"chunk {chunk_index} of {self.episode_id!r}: expected an index that is not written yet"
            )
        length = integer(ep.length) or 0  # refused below
        first = self._first_step(ep, index, length)
        chunk = replace(
            ep,
            chunk_index=index,
            total_chunks=max(index + 1, ep.total_chunks or 0),
            timestep_range=[first, first + length - 1],
        )
        chunk.validate()
        if not self._rows and self._path.exists():
            write_manifest(
                self._listing(complete=False), self._path
            )  # the older episode's hashes are wrong from now on
        path = self.base_path / f"{self._stem}_chunk_{index:04d}.wshard"
        save_wshard(chunk, path, self.compression, self.compression_level)
        self.manifest.env_id = self.manifest.env_id or ep.env_id
        self.manifest.add_chunk(index, path.name, _sha256(path), (first, first + length - 1), length)
        self._rows = {row.index: row for row in self.manifest.rows()}
        write_manifest(self._listing(complete=False), self._path)
        return path

    def _first_step(self, ep: Episode, index: int, length: int) -> int:
        if ep.timestep_range is not None:
            first, last = ep.timestep_range
            if last - first not in (length - 1, length):  # the second is the older form, with the end behind it
                raise EpisodeError(
                    f"timestep_range: expected [first, last] of {length} timesteps, found {[first, last]}"
                )
            return int(first)
        before = self._rows.get(index - 1)
        return before.stop if before else index * self.chunk_size_t

    def write_episode_chunked(self, ep: Episode) -> list[Path]:
        """Write a whole episode in chunks of chunk_size_t timesteps; returns their paths.

        Chunks that a resumed writer found in the manifest are not written again. Raises EpisodeError for an episode
        that is a chunk itself, or has a residual that cannot be cut.
        """
        ep.validate()
        if ep.is_chunked:
            raise EpisodeError(f"episode {ep.id!r}: expected a whole episode, found chunk {ep.chunk_index} of one")
        total = -(-ep.length // self.chunk_size_t)
        return [self._write_part(ep, index, total) for index in range(total)]

    def _write_part(self, ep: Episode, index: int, total: int) -> Path:
        start, base = index * self.chunk_size_t, ep.timestep_range[0] if ep.timestep_range else 0
        stop = min(start + self.chunk_size_t, ep.length)
        if index in self._resumed:
            row = self._rows[index]
            if (row.start, row.stop) != (base + start, base + stop):
                raise ManifestError(
                    f"{self._path}: chunk {index}: expected timesteps {base + start} to {base + stop}, "
                    f"found {row.start} to {row.stop}: it is of another episode or chunk size"
                )
            return self.base_path / row.uri
        part = replace(cut(ep, start, stop), total_chunks=total, timestep_range=[base + start, base + stop - 1])
        return self.write_chunk(part, index)

    def finalize_manifest(self) -> Path:
        """Mark the manifest as complete; returns its path. Raises ManifestError where chunks are missing."""
        validate_chunk_continuity(self.manifest)
        for chunk in self.manifest.chunks:
            chunk["total_chunks"] = len(self.manifest.chunks)
        write_manifest(self._listing(complete=True), self._path)
        return self._path

    def _listing(self, *, complete: bool) -> ChunkManifest:
        self.manifest.complete = complete
        return self.manifest


class ChunkedEpisodeReader:
    """Read a chunked episode: chunk by chunk, lazily as one file (open), or whole (load).

    A chunk file is compared with its SHA-256 before its data is used for the first time, unless hashed is False: then
    only the checksums of the blocks count, which are compared anyway.
    """

    def __init__(self, manifest_path: str | os.PathLike[str], *, hashed: bool = True) -> None:
        self.manifest_path = Path(manifest_path)
        self.base_dir = self.manifest_path.parent
        self.manifest: ChunkManifest | None = None
        self._hashed = hashed
        self._verified: set[str] = set()

    def load_manifest(self) -> ChunkManifest:
        """Read the manifest again; raises ManifestError where a chunk is listed twice, FileNotFoundError."""
        manifest = read_manifest(self.manifest_path)
        rows = manifest.rows()
        if len({row.index for row in rows}) != len(rows):
            raise ManifestError(f"{self.manifest_path}: chunk_index has gaps or duplicates: a chunk is listed twice")
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
        """Yield the chunks in order, each loaded when its turn comes; chunk fields are those of the manifest."""
        for row in self._manifest.rows():
            yield self._load(row)

    def load_chunk(self, chunk_index: int) -> Episode:
        """Return one chunk; raises ManifestError for an index that is not there, MissingFileError, ChecksumError."""
        row = next((row for row in self._manifest.rows() if row.index == chunk_index), None)
        if row is None:
            raise ManifestError(f"{self.manifest_path}: no chunk {chunk_index}, it lists {self.num_chunks}")
        return self._load(row)

    def open(self) -> ChunkedEpisodeFile:
        """Open all chunks as one lazy episode; raises ManifestError where chunks are missing."""
        return ChunkedEpisodeFile(self)

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Return the whole episode, equal to the one that was written in chunks; channels as in load_wshard.

        Raises ManifestError where chunks are missing (MissingFileError where their files are), LaneError where they do
        not fit together.
        """
        manifest = self._manifest
        validate_chunk_continuity(manifest)
        rows = manifest.rows()
        if not rows:
            raise ManifestError(f"{self.manifest_path}: expected at least one chunk, found none")
        whole = join([self._load(row, channels) for row in rows])
        first, end = rows[0].start, rows[-1].stop
        return replace(
            whole,
            id=manifest.episode_id,
            env_id=manifest.env_id or whole.env_id,
            timestep_range=[first, end - 1] if first else None,
        )

    def open_chunk(self, row: Chunk, *, hashed: bool = True) -> EpisodeFile:
        """Open the file of a manifest row, checked against its length and, unless hashed is False, its SHA-256.

        Raises MissingFileError, ManifestError for another length and a link that leaves the folder, ChecksumError and
        other FormatErrors.
        """
        path = self._locate(row)
        with named_in(self.manifest_path, path):
            if hashed and self._hashed:
                self._compare_hash(row, path)
            file = EpisodeFile(path)
        if file.length != row.length:
            found_length = file.length
            file.close()
            raise ManifestError(f"{path}: expected the manifest's {row.length} timesteps, found {found_length}")
        return file

    def verify_chunk(self, row: Chunk) -> None:
        """Compare a chunk with its SHA-256 or, where the manifest has none, its blocks with their checksums.

        Raises ChecksumError and other FormatErrors, MissingFileError.
        """
        path = self._locate(row)
        with named_in(self.manifest_path, path):
            self._compare_hash(row, path)
        with self.open_chunk(row) as file:
            if not row.sha256:
                file.verify()

    def manifest_digest(self) -> str:
        """Return the content digest of the manifest's file."""
        with ShardReader(self.manifest_path) as shard:
            return shard.digest()

    def _locate(self, row: Chunk) -> Path:
        """Return where a chunk lies; raises ManifestError for a link that leaves the folder."""
        within(self.base_dir, row.uri, str(self.manifest_path))
        return self.base_dir / row.uri

    def _compare_hash(self, row: Chunk, path: Path) -> None:
        if not row.sha256 or row.uri in self._verified:
            return
        found = _sha256(path)
        if found != row.sha256:
            raise ChecksumError(f"{path}: SHA-256 mismatch: the manifest says {row.sha256}, the file has {found}")
        self._verified.add(row.uri)

    def _load(self, row: Chunk, channels: Sequence[str] | None = None) -> Episode:
        with self.open_chunk(row) as file:
            ep = file.load(channels)
        total = max(self.num_chunks, row.index + 1)
        return replace(ep, chunk_index=row.index, total_chunks=total, timestep_range=[row.start, row.stop - 1])


def _sha256(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
