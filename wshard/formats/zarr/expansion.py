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
_SIZE: Final = struct.Struct("<I")
_STREAMS: Final[dict[str, Callable[[], Any]]] = {
    "zlib": zlib.decompressobj,
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}
_STATED: Final = {"blosc": 4, "lz4": 0}  # where a chunk states its size
_ZSTD: Final = "zstd"
_COMPRESSED: Final = 12  # where a chunk of blosc states its own size
_BEGIN: Final = 32  # bytes of a chunk that are enough for the sizes that it states

_COMPRESSORS: Final = frozenset({*_STREAMS, *_STATED, _ZSTD})
_PLAIN: Final = frozenset({"bytes", "endian", "transpose", "crc32c", "regular", "default", "v2"})


def compressor_of(layout: ArrayLayout, where: str) -> str:
    """Return the codec whose chunks have to be checked, "" for none; raises FormatError for several, one in another."""
    found = [name for name in _names(layout) if name in _COMPRESSORS]
    if not found:
        return ""
    if len(found) > 1:
        raise FormatError(f"{where}: expected chunks that are compressed once, found {' and '.join(found)}")
    return found[0]


def bytes_to_check(codec: str, layout: ArrayLayout, size: int) -> int:
    """Return how many bytes of a file of this size state to what it expands: those of its begin, or all."""
    return min(_BEGIN, size) if codec in _STATED and layout.shards is None else size


def check_expansion(data: bytes, codec: str, layout: ArrayLayout, where: str, *, size: int) -> None:
    """Raise LimitError if a chunk expands to more bytes than its numbers take, FormatError for damage.

    data: its bytes_to_check; size: that of its file.
    """
    shape = layout.chunks if layout.shards is None else layout.shards.chunk
    plain = {*_names(layout)} <= _PLAIN | {codec}
    limit = math.prod(shape) * layout.dtype.itemsize * (1 if plain else _FILTERED) + _SLACK
    if layout.shards is None:
        _check_chunk(data, codec, limit, where=where, size=size)
        return
    for chunk in layout.shards.chunks_in(data, layout.chunks, where):
        _check_chunk(chunk, codec, limit, where=where, size=len(chunk))


def _names(layout: ArrayLayout) -> list[str]:
    """Return the names of the codecs of each chunk."""
    codecs = layout.codecs if layout.shards is None else layout.shards.codecs
    return [name.removeprefix("numcodecs.") for name in codecs]


def _check_chunk(data: bytes, codec: str, limit: int, *, where: str, size: int) -> None:
    try:
        expanded = _expanded_size(data, codec, limit, size)
    except (zlib.error, OSError, ValueError, EOFError, lzma.LZMAError, zstandard.ZstdError, struct.error) as error:
        raise FormatError(f"{where}: cannot be read: {type(error).__name__}: {error}") from error
    if expanded > limit:
        raise LimitError(f"{where}: expected a chunk of at most {limit} bytes by its shape, found more in {codec}")


def _expanded_size(data: bytes, codec: str, limit: int, size: int) -> int:
    """Return the size of a decompressed chunk, or one above the limit; size: that of the chunk."""
    if codec == "blosc" and _SIZE.unpack_from(data, _COMPRESSED)[0] != size:
        raise ValueError(f"expected a chunk of blosc, found {size} bytes of something else")
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
