"""The container by the names of its published reference package: readers, writers, values, functions, numbers."""

from __future__ import annotations

from typing import Final

import xxhash

from wshard.container.block_paths import join_path, path_base, path_parent, split_path
from wshard.container.codec import MIN_COMPRESS_SIZE, SAVINGS
from wshard.container.layout import (
    ALIGNMENTS,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_ZSTD,
    CONTENT_TYPES,
    ENTRY_CHUNKED,
    ENTRY_COMPRESSED,
    ENTRY_LZ4,
    ENTRY_ZSTD,
    FLAG_HAS_CHECKSUMS,
    FLAG_HAS_CONTENT_TYPES,
    FLAG_HAS_SCHEMA,
    FLAG_LITTLE_ENDIAN,
    FLAG_STREAMING,
    HEADER_SIZE,
    INDEX_ENTRY_SIZE,
    MAGIC,
    MAX_DECOMPRESS_SIZE,
    MAX_ENTRY_COUNT,
    MAX_INDEX_SIZE,
    MAX_STRING_TABLE_SIZE,
    ROLE_COLUMN,
    ROLE_GEMMPANEL,
    ROLE_MANIFEST,
    ROLE_MOSH,
    ROLE_SAMPLE,
    ROLE_UMSH,
    ROLE_UNKNOWN,
    ROLE_WSHARD,
    VERSION,
    Header,
    IndexEntry,
)
from wshard.container.layout import checksum as compute_crc32c
from wshard.container.metadata import EntryMeta, ManifestFileRef, ManifestProfile, SampleProfile, ShardMetadata
from wshard.container.reader import ShardReader
from wshard.container.schema import EntrySpec, ShardSchema, ValidationError, validate_schema
from wshard.container.stream_writer import ShardStreamWriter
from wshard.container.writer import ShardWriter

__all__ = [
    "ALIGN_16",
    "ALIGN_32",
    "ALIGN_64",
    "ALIGN_NONE",
    "COMPRESSION_SAVINGS_DEN",
    "COMPRESSION_SAVINGS_NUM",
    "COMPRESS_LZ4",
    "COMPRESS_NONE",
    "COMPRESS_ZSTD",
    "CONTENT_TYPE_ANCHOR_SHARED",
    "CONTENT_TYPE_AUDIO",
    "CONTENT_TYPE_BLOB",
    "CONTENT_TYPE_CODEBOOK_SHARED",
    "CONTENT_TYPE_COLUMN",
    "CONTENT_TYPE_COWRIE",
    "CONTENT_TYPE_DELTA_EXPERT",
    "CONTENT_TYPE_EXPERT_INDICES",
    "CONTENT_TYPE_GLYPH",
    "CONTENT_TYPE_IMAGE",
    "CONTENT_TYPE_JSON",
    "CONTENT_TYPE_PROTO",
    "CONTENT_TYPE_QMLN",
    "CONTENT_TYPE_TENSOR",
    "CONTENT_TYPE_TENSOR_V3",
    "CONTENT_TYPE_TEXT",
    "CONTENT_TYPE_UNKNOWN",
    "CONTENT_TYPE_VIDEO",
    "ENTRY_FLAG_CHUNKED",
    "ENTRY_FLAG_COMPRESSED",
    "ENTRY_FLAG_LZ4",
    "ENTRY_FLAG_ZSTD",
    "FLAG_HAS_CHECKSUMS",
    "FLAG_HAS_CONTENT_TYPES",
    "FLAG_HAS_SCHEMA",
    "FLAG_LITTLE_ENDIAN",
    "FLAG_STREAMING",
    "HEADER_SIZE",
    "INDEX_ENTRY_SIZE",
    "MAX_DECOMPRESS_SIZE",
    "MAX_ENTRY_COUNT",
    "MAX_INDEX_SIZE",
    "MAX_STRING_TABLE_SIZE",
    "MIN_COMPRESS_SIZE",
    "ROLE_COLUMN",
    "ROLE_GEMMPANEL",
    "ROLE_MANIFEST",
    "ROLE_MOSH",
    "ROLE_SAMPLE",
    "ROLE_UMSH",
    "ROLE_UNKNOWN",
    "ROLE_WSHARD",
    "SHARD_MAGIC",
    "SHARD_VERSION",
    "EntryMeta",
    "EntrySpec",
    "IndexEntry",
    "ManifestFileRef",
    "ManifestProfile",
    "SampleProfile",
    "ShardHeader",
    "ShardMetadata",
    "ShardReader",
    "ShardSchema",
    "ShardStreamWriter",
    "ShardWriter",
    "ValidationError",
    "compute_crc32c",
    "compute_xxhash64",
    "join_path",
    "path_base",
    "path_parent",
    "split_path",
    "validate_schema",
]

ShardHeader = Header
SHARD_MAGIC: Final = MAGIC
SHARD_VERSION: Final = VERSION
ALIGN_NONE, ALIGN_16, ALIGN_32, ALIGN_64 = ALIGNMENTS
COMPRESS_NONE, COMPRESS_ZSTD, COMPRESS_LZ4 = CODEC_NONE, CODEC_ZSTD, CODEC_LZ4
COMPRESSION_SAVINGS_NUM, COMPRESSION_SAVINGS_DEN = SAVINGS
ENTRY_FLAG_COMPRESSED, ENTRY_FLAG_ZSTD, ENTRY_FLAG_LZ4 = ENTRY_COMPRESSED, ENTRY_ZSTD, ENTRY_LZ4
ENTRY_FLAG_CHUNKED: Final = ENTRY_CHUNKED
(
    CONTENT_TYPE_UNKNOWN,
    CONTENT_TYPE_TENSOR,
    CONTENT_TYPE_JSON,
    CONTENT_TYPE_COWRIE,
    CONTENT_TYPE_GLYPH,
    CONTENT_TYPE_TEXT,
    CONTENT_TYPE_IMAGE,
    CONTENT_TYPE_AUDIO,
    CONTENT_TYPE_VIDEO,
    CONTENT_TYPE_PROTO,
    CONTENT_TYPE_BLOB,
    CONTENT_TYPE_QMLN,
    CONTENT_TYPE_TENSOR_V3,
    CONTENT_TYPE_ANCHOR_SHARED,
    CONTENT_TYPE_DELTA_EXPERT,
    CONTENT_TYPE_CODEBOOK_SHARED,
    CONTENT_TYPE_EXPERT_INDICES,
    CONTENT_TYPE_COLUMN,
) = range(len(CONTENT_TYPES))


def compute_xxhash64(data: str | bytes, seed: int = 0) -> int:
    """Return the xxHash64 of bytes, or of the UTF-8 of a text."""
    return xxhash.xxh64_intdigest(data.encode() if isinstance(data, str) else data, seed)
