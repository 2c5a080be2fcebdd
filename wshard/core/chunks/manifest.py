"""The manifest of a chunked episode: which files hold which timesteps.

Ranges of timesteps are written with their last timestep; older files with the end after it are read as well.
"""

from __future__ import annotations

import json
import re
import reprlib
import unicodedata
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from wshard.core.container.layout import CONTENT_JSON, MAX_META_SIZE, ROLE_MANIFEST
from wshard.core.container.reader import ShardReader
from wshard.core.container.writer import ShardWriter
from wshard.core.files.listed import is_nameable
from wshard.errors import EpisodeError, HeaderError, LimitError, ManifestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wshard.core.files.schemes import Location

MANIFEST_BLOCK: Final = "meta/manifest"
MANIFEST_SUFFIX: Final = "_manifest.wshard"

_MAX_TIMESTEPS: Final = 1 << 40
_MAX_NAME: Final = 100  # bytes


@dataclass(frozen=True)
class Chunk:
    """One checked row of a manifest: the file `uri` beside the manifest has timesteps [start, stop)."""

    index: int
    uri: str
    sha256: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of timesteps."""
        return self.stop - self.start


@dataclass
class ChunkManifest:
    """The chunks of one episode, as rows of JSON. complete: False while a writer is still adding to it."""

    episode_id: str
    env_id: str = ""
    chunks: list[dict[str, Any]] = field(default_factory=list, init=False)
    total_timesteps: int = field(default=0, init=False)
    complete: bool = field(default=True, init=False)

    def add_chunk(self, chunk_index: int, uri: str, sha256: str, timestep_range: Sequence[int], length_t: int) -> None:
        """Add a row: a file of length_t timesteps; timestep_range is [first, last] within the episode."""
        self.chunks.append(
            {
                "chunk_index": chunk_index,
                "uri": uri,
                "sha256": sha256,
                "timestep_range": list(timestep_range),
                "length_T": length_t,
            }
        )
        self.total_timesteps += length_t

    def to_json(self) -> bytes:
        """Return the manifest as JSON; raises EpisodeError if it is larger than readers accept."""
        contents: dict[str, Any] = {
            "episode_id": self.episode_id,
            "env_id": self.env_id,
            "total_chunks": len(self.chunks),
            "total_timesteps": self.total_timesteps,
            "chunks": self.chunks,
        }
        data = json.dumps(contents if self.complete else contents | {"complete": False}, indent=2).encode()
        if len(data) > MAX_META_SIZE:
            raise EpisodeError(f"{MANIFEST_BLOCK}: expected at most {MAX_META_SIZE} bytes, found {len(data)}")
        return data

    @classmethod
    def from_json(cls, data: bytes) -> ChunkManifest:
        """Read a manifest's JSON and check every row; raises ManifestError."""
        return _from_json(data, "manifest")

    def rows(self) -> list[Chunk]:
        """Return the checked rows, ordered by chunk index; raises ManifestError for an impossible row."""
        where = f"manifest of {self.episode_id!r}"
        indices = [_integer(row if isinstance(row, dict) else {}, "chunk_index", where) for row in self.chunks]
        rows: list[Chunk] = []
        for index, row in sorted(zip(indices, self.chunks, strict=True), key=lambda pair: pair[0]):
            rows.append(_row(index, row, f"{where}: chunk {index}", rows[-1].stop if rows else 0))
        return rows


def validate_chunk_continuity(manifest: ChunkManifest | Location) -> None:
    """Raise ManifestError unless the chunks are 0 to n-1, each once, with contiguous timesteps.

    manifest: a manifest, or the path of its file. One without chunks is valid.
    """
    valid = manifest if isinstance(manifest, ChunkManifest) else read_manifest(manifest)
    where, rows = f"manifest of {valid.episode_id!r}", valid.rows()
    indices = [row.index for row in rows]
    if indices != list(range(len(rows))):
        raise ManifestError(
            f"{where}: chunk_index has gaps or duplicates: expected 0 to {len(rows) - 1}, found {reprlib.repr(indices)}"
        )
    for previous, following in pairwise(rows):
        if following.start != previous.stop:
            raise ManifestError(
                f"{where}: Timestep gap: chunk {following.index} should start at timestep {previous.stop}, "
                f"it starts at {following.start}"
            )
    total = sum(row.length for row in rows)
    if total != valid.total_timesteps:
        raise ManifestError(f"{where}: total_timesteps says {valid.total_timesteps}, the chunks have {total}")


def safe_name(episode_id: str) -> str:
    """Return a file name for an episode id: the id itself if it is valid, else a sanitised form and a hash of it.

    Letters and digits of any script are valid, composed as in NFC: file systems differ in whether they compose them.
    """
    if not episode_id:
        raise EpisodeError("episode: expected a non-empty id")
    safe = "".join(one if _is_safe(one) else "_" for one in unicodedata.normalize("NFC", episode_id))
    sanitised = safe.encode()[:_MAX_NAME].decode(errors="ignore").lstrip(".-")
    if sanitised == episode_id:
        return sanitised
    return f"{sanitised or 'episode'}-{blake2b(episode_id.encode(errors='surrogatepass'), digest_size=4).hexdigest()}"


def _is_safe(character: str) -> bool:
    return character in "._-" or unicodedata.category(character)[0] in "LMN"  # letters, their marks, numbers


# ---- reading and writing the file ----------------------------------------------------------------------------------


def read_manifest(path: Location) -> ChunkManifest:
    """Read a manifest file; raises ManifestError, other FormatErrors of the container, FileNotFoundError."""
    with ShardReader(path) as shard:
        if shard.header.role != ROLE_MANIFEST:
            raise HeaderError(
                f"{shard.where}: not a manifest: expected role {ROLE_MANIFEST} at offset 5, found {shard.header.role}"
            )
        if MANIFEST_BLOCK not in shard:
            raise ManifestError(f"{shard.where}: expected a block {MANIFEST_BLOCK!r}, found {shard.names()[:5]}")
        size = shard.entry(MANIFEST_BLOCK).orig_size
        if size > MAX_META_SIZE:
            raise LimitError(f"{shard.where}: {MANIFEST_BLOCK}: expected at most {MAX_META_SIZE} bytes, found {size}")
        return _from_json(shard.read_entry(MANIFEST_BLOCK), shard.where)


def write_manifest(manifest: ChunkManifest, path: Path) -> None:
    """Write a manifest file atomically."""
    with ShardWriter(path, role=ROLE_MANIFEST) as shard:
        shard.write_entry(MANIFEST_BLOCK, manifest.to_json(), content_type=CONTENT_JSON)


def _from_json(data: bytes, where: str) -> ChunkManifest:
    try:
        contents = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{where}: {MANIFEST_BLOCK}: expected UTF-8 JSON: {error}") from error
    rows = contents.get("chunks", []) if isinstance(contents, dict) else None
    if not isinstance(rows, list):
        raise ManifestError(f"{where}: {MANIFEST_BLOCK}: expected an object with a list of chunks")
    manifest = ChunkManifest(_text(contents, "episode_id", where), _text(contents, "env_id", where, ""))
    manifest.chunks = rows
    manifest.total_timesteps = _integer(contents, "total_timesteps", where, 0)
    manifest.complete = contents.get("complete") is not False
    manifest.rows()
    if _integer(contents, "total_chunks", where, len(rows)) != len(rows):
        raise ManifestError(f"{where}: total_chunks says {contents['total_chunks']}, found {len(rows)} chunks")
    return manifest


def _row(index: int, row: Mapping[str, Any], where: str, default_start: int) -> Chunk:
    uri, length = _text(row, "uri", where), _integer(row, "length_T", where)
    _check_uri(uri, where)
    bounds = row.get("timestep_range")
    start = default_start if bounds is None else _start(bounds, length, where)
    return Chunk(index, uri, _text(row, "sha256", where, "").lower(), start, start + length)


def _start(bounds: object, length: int, where: str) -> int:
    if not isinstance(bounds, (list, tuple)) or len(bounds) != 2:
        raise ManifestError(f"{where}: timestep_range: expected [first, last], found {reprlib.repr(bounds)}")
    by_name = {"first": bounds[0], "last": bounds[1]}
    first, last = (_integer(by_name, name, f"{where}: timestep_range") for name in by_name)
    if last - first not in (length - 1, length):  # the second is the older form with the end after the last timestep
        raise ManifestError(f"{where}: timestep_range {[first, last]} does not hold length_T = {length} timesteps")
    return first


def _check_uri(uri: str, where: str) -> None:
    """Refuse whatever could name a file outside the manifest's folder, on any system."""
    outside = re.match(r"/|[A-Za-z]:", uri) or ".." in uri.split("/")
    unnameable = re.search(r"[\\\0]", uri)
    if outside or unnameable or not uri.strip("./ ") or not is_nameable(uri):
        raise ManifestError(f"{where}: uri: expected a file in the manifest's folder, found {reprlib.repr(uri)}")


def _text(row: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = row.get(key, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ManifestError(f"{where}: {key}: expected a string, found {reprlib.repr(value)}")
    return value


def _integer(row: Mapping[str, Any], key: str, where: str, default: int | None = None) -> int:
    value = row.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_TIMESTEPS:
        raise ManifestError(f"{where}: {key}: expected an integer from 0 to {_MAX_TIMESTEPS}, found {value!r:.40}")
    return value
