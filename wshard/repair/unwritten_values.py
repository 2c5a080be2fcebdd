"""Find harmless values in header and index that no writer would write: for strict checks."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from wshard.container.layout import (
    ALIGNMENTS,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_ZSTD,
    ENTRY_CHUNKED,
    FLAG_HAS_CONTENT_TYPES,
    FLAG_HAS_SCHEMA,
    HEADER_SIZE,
    KNOWN_FLAGS,
)
from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.container.layout import IndexEntry
    from wshard.container.reader import ShardReader


def find_unwritten_values(reader: ShardReader) -> list[str]:
    """Return the unusual values in header and index entries, one sentence each (C-13)."""
    tag_count = 0
    with contextlib.suppress(FormatError):  # reported elsewhere
        metadata = reader.read_metadata()
        tag_count = len(metadata.tag_dictionary) if metadata else 0
    return [
        *_find_in_header(reader),
        *(text for entry in reader.entries for text in _find_in_entry(entry, reader.header.flags, tag_count)),
    ]


def _find_in_header(reader: ShardReader) -> Iterator[str]:
    header = reader.header
    if unknown_flags := header.flags & ~sum(KNOWN_FLAGS):
        yield f"header flags: expected none but known ones, found 0x{unknown_flags:04x}"
    if bool(header.schema_offset) != bool(header.flags & FLAG_HAS_SCHEMA):
        yield f"header flags: expected 0x{FLAG_HAS_SCHEMA:04x} with a JSON section only, found 0x{header.flags:04x}"
    if header.alignment not in ALIGNMENTS:
        yield f"alignment: expected one of {ALIGNMENTS}, found {header.alignment}"
    if header.compression_default not in {CODEC_NONE, CODEC_ZSTD, CODEC_LZ4}:
        yield f"default codec: expected 0, 1 or 2, found {header.compression_default}"
    if header.pack() != reader.read_range(0, HEADER_SIZE):
        yield "reserved bytes: expected zeros, found other values"


def _find_in_entry(entry: IndexEntry, flags: int, tag_count: int) -> Iterator[str]:
    if entry.flags & ENTRY_CHUNKED or (entry.flags and not entry.compressed):
        yield f"block {entry.name!r}: flags: expected a codec beside the compressed bit, found 0x{entry.flags:04x}"
    if entry.content_type and not flags & FLAG_HAS_CONTENT_TYPES:
        yield (
            f"block {entry.name!r}: content type {entry.content_type}: "
            f"expected header flag 0x{FLAG_HAS_CONTENT_TYPES:04x}, found 0x{flags:04x}"
        )
    if entry.tag_bits >> tag_count:
        yield f"block {entry.name!r}: expected tags of {tag_count} words, found the bits 0x{entry.tag_bits:04x}"
