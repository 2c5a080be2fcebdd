"""Compress and decompress the bytes of an entry; decoding never yields more than the stated size."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lz4.frame
import zstandard

from wshard.core.container.codec import MIN_COMPRESS_SIZE, pays
from wshard.core.messages import shown
from wshard.errors import CodecError, LimitError
from wshard.training.shardpack.layout import MAX_ENTRY_SIZE, PackCodec

if TYPE_CHECKING:
    from wshard.core.container.layout import Buffer

_LEVELS: Final = {PackCodec.NONE: (0, 0), PackCodec.GZIP: (1, 9), PackCodec.LZ4: (1, 16), PackCodec.ZSTD: (1, 22)}
_DEFAULTS: Final = {PackCodec.NONE: 0, PackCodec.GZIP: 6, PackCodec.LZ4: 1, PackCodec.ZSTD: 3}
_MAX_EXPANSION: Final = {PackCodec.GZIP: 1 << 11, PackCodec.LZ4: 1 << 8, PackCodec.ZSTD: 1 << 15}
_GZIP_WBITS: Final = 31  # window bits of a gzip member
_ZSTD_PIECE: Final = 64  # stored bytes of zstd that decode to 2 MiB at most


@dataclass(frozen=True)
class PackCompression:
    """A codec with its level, e.g. PackCompression.parse("zstd:19")."""

    codec: PackCodec = PackCodec.NONE
    level: int = 0

    @staticmethod
    def parse(text: str | PackCompression) -> PackCompression:
        """Parse none, gzip, lz4, zstd, or one of them with a level, e.g. "gzip:9"; raises CodecError."""
        if isinstance(text, PackCompression):
            return text
        name, colon, suffix = str(text).partition(":")
        codec = PackCodec.__members__.get(name.upper()) if name.islower() else None
        if codec is None or (colon and not suffix.isdecimal()):
            raise CodecError(f"compression: expected none, gzip, lz4 or zstd, or as zstd:LEVEL, found {shown(text)}")
        min_level, max_level = _LEVELS[codec]
        level = int(suffix) if suffix else _DEFAULTS[codec]
        if not min_level <= level <= max_level:
            raise CodecError(f"compression: expected a level from {min_level} to {max_level} for {name}, found {level}")
        return PackCompression(codec, level)

    def compress(self, data: Buffer) -> tuple[PackCodec, Buffer]:
        """Return the codec and the bytes to store; uncompressed if compression does not pay off."""
        if self.codec is PackCodec.NONE or len(data) < MIN_COMPRESS_SIZE:
            return PackCodec.NONE, data
        packed = encode(data, self)
        return (self.codec, packed) if pays(len(packed), len(data)) else (PackCodec.NONE, data)


def encode(data: Buffer, compression: PackCompression) -> Buffer:
    """Return the compressed bytes, also if they are not smaller; equal data give equal bytes."""
    if compression.codec is PackCodec.GZIP:
        member = zlib.compressobj(compression.level, zlib.DEFLATED, _GZIP_WBITS)  # its header has no time or name
        return member.compress(data) + member.flush()
    if compression.codec is PackCodec.LZ4:
        packed: bytes = lz4.frame.compress(data, compression_level=compression.level - 1, store_size=True)
        return packed
    if compression.codec is PackCodec.ZSTD:
        return zstandard.ZstdCompressor(level=compression.level, write_content_size=True).compress(data)
    return data


def decode(data: memoryview, size: int, codec: int, where: str) -> Buffer:
    """Decode the stored bytes of one entry to exactly `size`; raises LimitError, CodecError."""
    if size > MAX_ENTRY_SIZE:
        raise LimitError(f"{where}: file_size {size}: expected at most {MAX_ENTRY_SIZE}")
    if codec == PackCodec.NONE:
        return data
    if size > (len(data) + 64) * _MAX_EXPANSION[PackCodec(codec)]:
        raise LimitError(f"{where}: {len(data)} stored bytes cannot hold file_size {size}: out of bounds")
    decoder = {PackCodec.GZIP: _decode_gzip, PackCodec.LZ4: _decode_lz4, PackCodec.ZSTD: _decode_zstd}[PackCodec(codec)]
    try:
        decoded, problem = decoder(data, size)
    except (zlib.error, RuntimeError, ValueError, zstandard.ZstdError) as error:
        raise CodecError(f"{where}: {PackCodec(codec).name.lower()}: {error}") from error
    except MemoryError:
        raise LimitError(f"{where}: its {size} decompressed bytes do not fit into memory") from None
    if len(decoded) != size:
        found = len(decoded) if len(decoded) < size else "more"
        raise CodecError(f"{where}: expected {size} decompressed bytes, found {found}")
    if problem:
        raise CodecError(f"{where}: {problem}")
    return decoded


def _decode_gzip(data: memoryview, size: int) -> tuple[Buffer, str]:
    member = zlib.decompressobj(_GZIP_WBITS)
    decoded = member.decompress(data, size + 1)
    return decoded, _end_problem(ended=member.eof, unused=len(member.unused_data))


def _decode_lz4(data: memoryview, size: int) -> tuple[Buffer, str]:
    frame = lz4.frame.LZ4FrameDecompressor()
    decoded: bytes = frame.decompress(data, max_length=size + 1)
    return decoded, _end_problem(ended=frame.eof, unused=len(frame.unused_data or b""))


def _decode_zstd(data: memoryview, size: int) -> tuple[Buffer, str]:
    claimed = zstandard.get_frame_parameters(data).content_size
    if claimed not in (size, zstandard.CONTENTSIZE_UNKNOWN):
        raise CodecError(f"the frame says {claimed} bytes, file_size is {size}")
    if size:
        decoder = zstandard.ZstdDecompressor()
        return decoder.decompress(data, max_output_size=size, allow_extra_data=False), ""
    frame = zstandard.ZstdDecompressor().decompressobj()  # as max_output_size=0 means no limit
    for start in range(0, len(data), _ZSTD_PIECE):
        if frame.eof or frame.decompress(data[start : start + _ZSTD_PIECE]):
            return b"" if frame.eof else b"\0", "found bytes after the frame"
    return b"", _end_problem(ended=frame.eof, unused=len(frame.unused_data))


def _end_problem(*, ended: bool, unused: int) -> str:
    """Return the problem at the end of a compressed stream, "" if there is none."""
    if not ended:
        return "the compressed bytes end too early"
    return f"found {unused} bytes after the compressed data" if unused else ""
