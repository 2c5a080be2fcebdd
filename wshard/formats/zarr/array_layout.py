"""The metadata of a zarr array, version 2 and 3: dtype, shape, chunks and the names of their files."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.messages import shown
from wshard.errors import FormatError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHARDING: Final = "sharding_indexed"
_INDEX_CODECS: Final = (["bytes"], ["bytes", "crc32c"])
_CHECKSUM_SIZE: Final = 4
MAX_CHUNK_SIZE: Final = 1 << 30
_MAX_AXES: Final = 32
_NUMERIC: Final = "biuf"


@dataclass(frozen=True)
class ArrayLayout:
    """An array of numbers. prefix, separator: of the names of its chunks; codecs: names of its codecs.

    shards: how its files contain chunks, None if each contains one.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    prefix: str
    separator: str
    codecs: tuple[str, ...]
    shards: Shards | None = None

    def chunk_names(self, start: int, stop: int) -> list[str]:
        """Return the names of the chunks that contain these rows; along further axes, only the first chunk."""
        first_chunk = ["0"] * (len(self.shape) - 1)
        numbers = range(start // self.chunks[0], -(-max(stop, start + 1) // self.chunks[0]))
        return [self.prefix + self.separator.join([str(number), *first_chunk]) for number in numbers]

    def all_chunk_names(self, start: int, stop: int) -> Iterator[str]:
        """Yield the names of all chunks with these rows."""
        rows = range(start // self.chunks[0], -(-stop // self.chunks[0]))
        axes = zip(self.shape[1:], self.chunks[1:], strict=True)
        for place in product(rows, *(range(-(-size // chunk)) for size, chunk in axes)):
            yield self.prefix + self.separator.join(map(str, place))


def read_layout(metadata: Any, where: str) -> ArrayLayout:
    """Read .zarray or zarr.json; raises FormatError for anything but an array of numbers, and for pickles."""
    if not isinstance(metadata, dict):
        raise FormatError(f"{where}: expected the metadata of an array, found {shown(metadata)}")
    codecs = tuple(_codec_names(metadata))
    if any("pickle" in name for name in codecs):
        raise FormatError(f"{where}: expected data, found pickles, which are programs: they are not read")
    try:
        layout = _read_v3(metadata, codecs) if metadata.get("zarr_format") == 3 else _read_v2(metadata, codecs)
        if SHARDING in codecs:
            layout = replace(layout, shards=read_shards(metadata["codecs"], layout.chunks, where))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{where}: expected the metadata of a zarr array of numbers: {error}") from error
    if layout.dtype.kind not in _NUMERIC or len(layout.shape) != len(layout.chunks) or not layout.shape:
        raise FormatError(f"{where}: expected an array of numbers, found {layout.dtype} {list(layout.shape)}")
    sizes = (*layout.shape, *layout.chunks)
    if len(sizes) > _MAX_AXES or min(sizes) < 0 or min(layout.chunks) < 1 or max(sizes) >= 1 << 48:
        raise FormatError(f"{where}: expected sizes of axes, found {shown(sizes)}")
    size = math.prod(layout.chunks) * layout.dtype.itemsize
    if size > MAX_CHUNK_SIZE:
        raise LimitError(f"{where}: expected chunks of at most {MAX_CHUNK_SIZE} bytes, found {size}")
    return layout


def _read_v2(metadata: dict[str, Any], codecs: tuple[str, ...]) -> ArrayLayout:
    separator = metadata.get("dimension_separator") or "."
    return ArrayLayout(
        np.dtype(str(metadata["dtype"])), _ints(metadata["shape"]), _ints(metadata["chunks"]), "", separator, codecs
    )


def _read_v3(metadata: dict[str, Any], codecs: tuple[str, ...]) -> ArrayLayout:
    names = metadata.get("chunk_key_encoding") or {}
    is_default = names.get("name", "default") == "default"
    separator = (names.get("configuration") or {}).get("separator", "/" if is_default else ".")
    chunks = _ints(metadata["chunk_grid"]["configuration"]["chunk_shape"])
    prefix = f"c{separator}" if is_default else ""
    return ArrayLayout(
        np.dtype(str(metadata["data_type"])), _ints(metadata["shape"]), chunks, prefix, separator, codecs
    )


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _codec_names(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the names of codecs anywhere in metadata: "id" in version 2, "name" in version 3."""
    if depth > _MAX_AXES:
        return
    if isinstance(value, dict):
        yield from (str(value[key]).lower() for key in ("id", "name") if key in value)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(item, (dict, list)):
            yield from _codec_names(item, depth + 1)


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
