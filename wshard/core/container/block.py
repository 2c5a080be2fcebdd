"""One stored block: by which codec its bytes are decoded, and whether they are what was written.

Rules by number: FORMAT.md.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from wshard.core.container.codec import decompress
from wshard.core.container.layout import (
    CODEC_LZ4,
    CODEC_ZSTD,
    ENTRY_KNOWN_FLAGS,
    ENTRY_LZ4,
    ENTRY_ZSTD,
    FLAG_HAS_CHECKSUMS,
    checksum,
)
from wshard.errors import ChecksumError, CodecError, FormatWarning

if TYPE_CHECKING:
    from wshard.core.container.layout import Buffer, Header, IndexEntry


def decode(entry: IndexEntry, stored: memoryview, header: Header, where: str) -> Buffer:
    """Return a block's decoded bytes, orig_size of them; raises CodecError, LimitError."""
    codec = codec_flags(entry, header, where)
    if not codec:
        if entry.disk_size != entry.orig_size:
            raise CodecError(f"{where}: stored raw in {entry.disk_size} bytes, but orig_size is {entry.orig_size}")
        return stored
    try:
        return decompress(stored, entry.orig_size, codec, where)
    except CodecError:
        # Some writers leave the flag on blocks that they stored raw; only a matching checksum can prove that.
        if entry.disk_size == entry.orig_size and entry.checksum and checksum(stored) == entry.checksum:
            return stored
        raise


def codec_flags(entry: IndexEntry, header: Header, where: str) -> int:
    """Return the codec bit that decodes a block's stored bytes, 0 if they are raw; raises CodecError."""
    flags = entry.flags
    codec = flags & (ENTRY_ZSTD | ENTRY_LZ4)
    if flags & ~ENTRY_KNOWN_FLAGS or codec == ENTRY_ZSTD | ENTRY_LZ4:
        raise CodecError(f"{where}: expected at most one known codec flag, found 0x{flags:04x}")
    if not entry.compressed or codec:
        return codec if entry.compressed else 0
    # The episode packages' older streams set the flag alone and mean the codec that the header names.
    default = {CODEC_ZSTD: ENTRY_ZSTD, CODEC_LZ4: ENTRY_LZ4}.get(header.compression_default, 0)
    if not default and entry.disk_size != entry.orig_size:
        raise CodecError(f"{where}: compressed by a codec that neither the entry nor the header names")
    return default


def codec_name(entry: IndexEntry, header: Header) -> str:
    """Return what people call the codec of a block's stored bytes: none, zstd, lz4, or unknown."""
    default = {CODEC_ZSTD: "zstd", CODEC_LZ4: "lz4"}.get(header.compression_default, "unknown")
    named = "zstd" if entry.flags & ENTRY_ZSTD else "lz4" if entry.flags & ENTRY_LZ4 else default
    return named if entry.compressed else "none"


def check(entry: IndexEntry, data: Buffer, stored: memoryview, header: Header, where: str) -> None:
    """Compare a block's decoded bytes with its checksum; raises ChecksumError, warns with a FormatWarning."""
    if not entry.checksum and not header.flags & FLAG_HAS_CHECKSUMS:
        return
    found = checksum(data)
    if found == entry.checksum:
        return
    if entry.compressed and not entry.flags & (ENTRY_ZSTD | ENTRY_LZ4) and checksum(stored) == entry.checksum:
        message = f"{where}: its checksum is that of the compressed bytes, as one older stream writer stored it"
        warnings.warn(message, FormatWarning, stacklevel=4)
        return
    raise ChecksumError(f"{where}: Checksum mismatch: stored 0x{entry.checksum:08x}, computed 0x{found:08x}")
