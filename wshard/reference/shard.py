"""The container by the names of its published reference package: readers, writers, values, functions, numbers."""

from __future__ import annotations

from typing import Final

import xxhash

from wshard.core.container.block_paths import join_path as join_path
from wshard.core.container.block_paths import path_base as path_base
from wshard.core.container.block_paths import path_parent as path_parent
from wshard.core.container.block_paths import split_path as split_path
from wshard.core.container.codec import MIN_COMPRESS_SIZE as MIN_COMPRESS_SIZE
from wshard.core.container.codec import SAVINGS
from wshard.core.container.layout import (
    ALIGNMENTS,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_ZSTD,
    CONTENT_TYPES,
    ENTRY_CHUNKED,
    ENTRY_COMPRESSED,
    ENTRY_LZ4,
    ENTRY_ZSTD,
    MAGIC,
    VERSION,
    Header,
    checksum,
)
from wshard.core.container.layout import FLAG_HAS_CHECKSUMS as FLAG_HAS_CHECKSUMS
from wshard.core.container.layout import FLAG_HAS_CONTENT_TYPES as FLAG_HAS_CONTENT_TYPES
from wshard.core.container.layout import FLAG_HAS_SCHEMA as FLAG_HAS_SCHEMA
from wshard.core.container.layout import FLAG_LITTLE_ENDIAN as FLAG_LITTLE_ENDIAN
from wshard.core.container.layout import FLAG_STREAMING as FLAG_STREAMING
from wshard.core.container.layout import HEADER_SIZE as HEADER_SIZE
from wshard.core.container.layout import INDEX_ENTRY_SIZE as INDEX_ENTRY_SIZE
from wshard.core.container.layout import MAX_DECOMPRESS_SIZE as MAX_DECOMPRESS_SIZE
from wshard.core.container.layout import MAX_ENTRY_COUNT as MAX_ENTRY_COUNT
from wshard.core.container.layout import MAX_INDEX_SIZE as MAX_INDEX_SIZE
from wshard.core.container.layout import MAX_STRING_TABLE_SIZE as MAX_STRING_TABLE_SIZE
from wshard.core.container.layout import ROLE_COLUMN as ROLE_COLUMN
from wshard.core.container.layout import ROLE_GEMMPANEL as ROLE_GEMMPANEL
from wshard.core.container.layout import ROLE_MANIFEST as ROLE_MANIFEST
from wshard.core.container.layout import ROLE_MOSH as ROLE_MOSH
from wshard.core.container.layout import ROLE_SAMPLE as ROLE_SAMPLE
from wshard.core.container.layout import ROLE_UMSH as ROLE_UMSH
from wshard.core.container.layout import ROLE_UNKNOWN as ROLE_UNKNOWN
from wshard.core.container.layout import ROLE_WSHARD as ROLE_WSHARD
from wshard.core.container.layout import IndexEntry as IndexEntry
from wshard.core.container.metadata import EntryMeta as EntryMeta
from wshard.core.container.metadata import ManifestFileRef as ManifestFileRef
from wshard.core.container.metadata import ManifestProfile as ManifestProfile
from wshard.core.container.metadata import SampleProfile as SampleProfile
from wshard.core.container.metadata import ShardMetadata as ShardMetadata
from wshard.core.container.reader import ShardReader as ShardReader
from wshard.core.container.schema import EntrySpec as EntrySpec
from wshard.core.container.schema import ShardSchema as ShardSchema
from wshard.core.container.schema import ValidationError as ValidationError
from wshard.core.container.schema import validate_schema as validate_schema
from wshard.core.container.stream_writer import ShardStreamWriter as ShardStreamWriter
from wshard.core.container.writer import ShardWriter as ShardWriter

ShardHeader = Header
compute_crc32c = checksum
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
