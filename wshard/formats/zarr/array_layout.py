"""The metadata of a zarr array, version 2 and 3: dtype, shape, chunks and the names of their files."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError, LimitError
from wshard.formats.zarr.shards import SHARDING, Shards, read_shards
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

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
