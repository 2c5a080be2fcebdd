"""Write one episode in many files, with a manifest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wshard.core.arguments import integer, timesteps
from wshard.core.chunks.manifest import (
    MANIFEST_SUFFIX,
    ChunkManifest,
    read_manifest,
    safe_name,
    validate_chunk_continuity,
    write_manifest,
)
from wshard.core.chunks.reader import hash_file
from wshard.core.chunks.split import cut
from wshard.core.container.codec import CompressionLevel, CompressionType
from wshard.core.episode.file import load_wshard, open_wshard, save_wshard
from wshard.errors import EpisodeError, ManifestError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from wshard.core.container.codec_plan import Compression
    from wshard.core.types import Episode


class ChunkedEpisodeWriter:
    """Write one episode as chunk files and a manifest into the folder base_path, which is created.

    chunk_size_t: timesteps per chunk. The manifest on disk is updated after every chunk and marked incomplete, so that
    a killed writer leaves a readable episode; resume=True continues after its last chunk. Without it, a chunked episode
    of the same id in that folder is replaced. File names are derived from the episode id.
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
        manifest = read_manifest(self._path)
        if manifest.episode_id != self.episode_id:
            raise ManifestError(f"{self._path}: expected episode {self.episode_id!r}, found {manifest.episode_id!r}")
        manifest.env_id = manifest.env_id or self.manifest.env_id
        self.manifest = manifest

    def write_chunk(self, ep: Episode, chunk_index: int | None = None) -> Path:
        """Write the next chunk, or the one with that index, and list it in the manifest; returns its path.

        Its timesteps follow the previous chunk, unless ep.timestep_range gives [first, last]. `ep` is not changed.
        Raises ManifestError for an index that exists, EpisodeError for an inconsistent episode.
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
            # An older episode is replaced: from now on, the hashes in its manifest are wrong.
            write_manifest(self._with_state(complete=False), self._path)
        path = self.base_path / f"{self._stem}_chunk_{index:04d}.wshard"
        save_wshard(chunk, path, self.compression, self.compression_level)
        self.manifest.env_id = self.manifest.env_id or ep.env_id
        self.manifest.add_chunk(index, path.name, hash_file(path), (first, first + length - 1), length)
        self._rows = {row.index: row for row in self.manifest.rows()}
        write_manifest(self._with_state(complete=False), self._path)
        return path

    def _first_step(self, ep: Episode, index: int, length: int) -> int:
        if ep.timestep_range is not None:
            first, last = ep.timestep_range
            if last - first not in (length - 1, length):  # the second is the older form, which has the end instead
                raise EpisodeError(
                    f"timestep_range: expected [first, last] of {length} timesteps, found {[first, last]}"
                )
            return int(first)
        previous = self._rows.get(index - 1)
        return previous.stop if previous else index * self.chunk_size_t

    def write_episode_chunked(self, ep: Episode) -> list[Path]:
        """Write a whole episode in chunks of chunk_size_t timesteps; returns their paths.

        A resumed writer skips chunks that are in the manifest. Raises EpisodeError for an episode that is itself a
        chunk, or has a residual that cannot be split.
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
        """Mark the manifest as complete; returns its path. Raises ManifestError if chunks are missing.

        Chunk files that were written before the number of chunks was known are written again, with that number.
        """
        validate_chunk_continuity(self.manifest)
        self._write_totals(len(self.manifest.chunks))
        write_manifest(self._with_state(complete=True), self._path)
        return self._path

    def _write_totals(self, total: int) -> None:
        """Write the number of chunks into files and manifest; a kill in between leaves a readable episode."""
        outdated = [chunk for chunk in self.manifest.chunks if self._total_in(chunk) != total]
        for chunk in outdated:
            chunk["sha256"] = ""  # that of the file is about to change
        if outdated:
            write_manifest(self._with_state(complete=False), self._path)
        for chunk in outdated:
            path = self.base_path / chunk["uri"]
            save_wshard(replace(load_wshard(path), total_chunks=total), path, self.compression, self.compression_level)
        for chunk in self.manifest.chunks:
            chunk["total_chunks"] = total
            chunk["sha256"] = chunk["sha256"] or hash_file(self.base_path / chunk["uri"])

    def _total_in(self, chunk: Mapping[str, Any]) -> int | None:
        with open_wshard(self.base_path / chunk["uri"]) as file:
            return file.description.total_chunks

    def _with_state(self, *, complete: bool) -> ChunkManifest:
        self.manifest.complete = complete
        return self.manifest
