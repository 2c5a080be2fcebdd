"""Files of zarr version 3 that contain several compressed chunks (sharding_indexed), and where each of them is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHARDING: Final = "sharding_indexed"
_INDEX_CODECS: Final = (["bytes"], ["bytes", "crc32c"])
_CHECKSUM_SIZE: Final = 4


@dataclass(frozen=True)
class Shards:
    """How chunks are in a shard. chunk: their shape; codecs: the names of their codecs; index: places and sizes."""

    chunk: tuple[int, ...]
    codecs: tuple[str, ...]
    index: np.dtype[Any]
    has_checksum: bool
    is_index_first: bool

    def chunks_in(self, data: bytes, shard: Sequence[int], where: str) -> Iterator[bytes]:
        """Yield the compressed chunks of a shard; raises FormatError if they are not in it."""
        count = math.prod(shard) // math.prod(self.chunk)
        size = count * 2 * self.index.itemsize
        start = 0 if self.is_index_first else len(data) - size - self.has_checksum * _CHECKSUM_SIZE
        if not 0 <= start <= len(data) - size:
            raise FormatError(f"{where}: cannot be read: expected the index of {count} chunks, found {len(data)} bytes")
        for offset, length in np.frombuffer(data, self.index, count * 2, start).reshape(-1, 2).tolist():
            if offset == length == np.iinfo(np.uint64).max:
                continue  # it has only the fill value
            if offset + length > len(data):
                raise FormatError(f"{where}: cannot be read: expected chunks in {len(data)} bytes, found one behind")
            yield data[offset : offset + length]


def read_shards(codecs: Any, shard: Sequence[int], where: str) -> Shards:
    """Read the codecs of an array in shards; raises FormatError for shards in others, and for compressed ones."""
    names = [_name(codec) for codec in codecs]
    if names[-1] != SHARDING or not {*names[:-1]} <= {"transpose"}:
        raise FormatError(f"{where}: expected shards that are not compressed, found the codecs {', '.join(names)}")
    settings = codecs[-1]["configuration"]
    chunk = tuple(int(size) for size in settings["chunk_shape"])
    inner = tuple(_name(codec) for codec in settings["codecs"])
    index_codecs = settings.get("index_codecs") or [{"name": "bytes"}, {"name": "crc32c"}]
    index_names = [_name(codec) for codec in index_codecs]
    if SHARDING in inner or index_names not in _INDEX_CODECS:
        raise FormatError(f"{where}: expected shards of chunks with a plain index, found {[*inner, *index_names]}")
    if len(chunk) != len(shard) or min(chunk) < 1 or math.prod(shard) % math.prod(chunk):
        raise FormatError(f"{where}: expected chunks that fill shards of {list(shard)}, found {list(chunk)}")
    endian = _settings(index_codecs[0]).get("endian", "little")
    index = np.dtype(">u8" if endian == "big" else "<u8")
    return Shards(chunk, inner, index, "crc32c" in index_names, settings.get("index_location") == "start")


def _name(codec: Any) -> str:
    return str(codec if isinstance(codec, str) else codec["name"]).lower()


def _settings(codec: Any) -> dict[str, Any]:
    return {} if isinstance(codec, str) else codec.get("configuration") or {}
