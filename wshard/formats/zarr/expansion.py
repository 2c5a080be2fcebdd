"""Whether a compressed chunk of a zarr array expands to more than the array says, found without expanding it whole."""

from __future__ import annotations

import bz2
import lzma
import math
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import zstandard

from wshard.errors import FormatError, LimitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wshard.formats.zarr.array_layout import ArrayLayout

_SLACK: Final = 1 << 16
_FILTERED: Final = 8  # filters store a number in 8 bytes at most, also one of 1 byte
_STEP: Final = 1 << 20
_SHARDS: Final = "sharding_indexed"  # chunks of chunks, whose sizes are not at their begin
_SIZE: Final = struct.Struct("<I")
_STREAMS: Final[dict[str, Callable[[], Any]]] = {
    "zlib": zlib.decompressobj,
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}
_STATED: Final = {"blosc": 4, "lz4": 0}  # where a chunk states its size
_ZSTD: Final = "zstd"
BEGIN: Final = 32
"""Bytes of a chunk that are enough for the size that it states."""

_COMPRESSORS: Final = frozenset({*_STREAMS, *_STATED, _ZSTD})
_PLAIN: Final = frozenset({"bytes", "endian", "transpose", "crc32c", "regular", "default", "v2"})


def compressor_of(layout: ArrayLayout, where: str) -> str:
    """Return the codec whose chunks have to be checked, "" for none; raises FormatError for several, one in another."""
    names = [name.removeprefix("numcodecs.") for name in layout.codecs]
    found = [name for name in names if name in _COMPRESSORS]
    if _SHARDS in names or not found:
        return ""
    if len(found) > 1:
        raise FormatError(f"{where}: expected chunks that are compressed once, found {' and '.join(found)}")
    return found[0]


def has_stated_size(codec: str) -> bool:
    """Return True if the begin of a chunk states its size."""
    return codec in _STATED


def check_expansion(data: bytes, codec: str, layout: ArrayLayout, where: str) -> None:
    """Raise LimitError if a chunk expands to more bytes than the numbers of a chunk take, FormatError for damage."""
    plain = {name.removeprefix("numcodecs.") for name in layout.codecs} <= _PLAIN | {codec}
    limit = math.prod(layout.chunks) * layout.dtype.itemsize * (1 if plain else _FILTERED) + _SLACK
    try:
        size = _expanded_size(data, codec, limit)
    except (zlib.error, OSError, ValueError, EOFError, lzma.LZMAError, zstandard.ZstdError, struct.error) as error:
        raise FormatError(f"{where}: cannot be read: {type(error).__name__}: {error}") from error
    if size > limit:
        raise LimitError(f"{where}: expected a chunk of at most {limit} bytes by its shape, found more in {codec}")


def _expanded_size(data: bytes, codec: str, limit: int) -> int:
    """Return the size of a decompressed chunk, or one above the limit."""
    if codec in _STATED:
        return int(_SIZE.unpack_from(data, _STATED[codec])[0])
    if codec == _ZSTD:
        stated = zstandard.frame_content_size(data)
        if stated >= 0:
            return stated
        total = 0
        for part in zstandard.ZstdDecompressor().read_to_iter(data):
            total += len(part)
            if total > limit:
                break
        return total
    return _stream_size(data, _STREAMS[codec], limit)


def _stream_size(data: bytes, start: Callable[[], Any], limit: int) -> int:
    """Return the size of one or more streams, which are decompressed in parts of 1 MiB."""
    total = 0
    while data and total <= limit:
        stream = start()
        while not stream.eof and total <= limit:
            part = stream.decompress(data, _STEP)
            data = getattr(stream, "unconsumed_tail", b"")
            total += len(part)
            if not part and not data:
                break
        data = stream.unused_data
    return total
