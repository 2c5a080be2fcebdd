"""ShardPack: many records of several named files each in one file, with random access by number and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from wshard.shardpack.codecs import PackCompression
    from wshard.shardpack.columns import ColumnPacks
    from wshard.shardpack.inspect import inspect_shardpack, is_shardpack
    from wshard.shardpack.layout import MetadataEncoding, PackCodec
    from wshard.shardpack.pack import pack_sources
    from wshard.shardpack.pack_set import ShardPackSet
    from wshard.shardpack.reader import ShardPackReader
    from wshard.shardpack.reader import ShardPackReader as open  # noqa: A004, N813 -- as in the format's own examples
    from wshard.shardpack.record import RecordMetadata, ShardPackEntry, ShardPackRecord
    from wshard.shardpack.repair import repair_shardpack
    from wshard.shardpack.shards import expand_shards
    from wshard.shardpack.stream import stream_shardpack
    from wshard.shardpack.unpack import UnpackReport, unpack_shardpack
    from wshard.shardpack.verify import PackCheck, verify_shardpack
    from wshard.shardpack.writer import NewEntry, ShardLimits, ShardPackWriter

__all__ = [
    "ColumnPacks",
    "MetadataEncoding",
    "NewEntry",
    "PackCheck",
    "PackCodec",
    "PackCompression",
    "RecordMetadata",
    "ShardLimits",
    "ShardPackEntry",
    "ShardPackReader",
    "ShardPackRecord",
    "ShardPackSet",
    "ShardPackWriter",
    "UnpackReport",
    "expand_shards",
    "inspect_shardpack",
    "is_shardpack",
    "open",
    "pack_sources",
    "repair_shardpack",
    "stream_shardpack",
    "unpack_shardpack",
    "verify_shardpack",
]

__getattr__ = importer(
    "wshard.shardpack",
    {
        "ColumnPacks": "wshard.shardpack.columns",
        "MetadataEncoding": "wshard.shardpack.layout",
        "NewEntry": "wshard.shardpack.writer",
        "PackCheck": "wshard.shardpack.verify",
        "PackCodec": "wshard.shardpack.layout",
        "PackCompression": "wshard.shardpack.codecs",
        "RecordMetadata": "wshard.shardpack.record",
        "ShardLimits": "wshard.shardpack.writer",
        "ShardPackEntry": "wshard.shardpack.record",
        "ShardPackReader": "wshard.shardpack.reader",
        "ShardPackRecord": "wshard.shardpack.record",
        "ShardPackSet": "wshard.shardpack.pack_set",
        "ShardPackWriter": "wshard.shardpack.writer",
        "UnpackReport": "wshard.shardpack.unpack",
        "expand_shards": "wshard.shardpack.shards",
        "inspect_shardpack": "wshard.shardpack.inspect",
        "is_shardpack": "wshard.shardpack.inspect",
        "open": "wshard.shardpack.reader:ShardPackReader",
        "pack_sources": "wshard.shardpack.pack",
        "repair_shardpack": "wshard.shardpack.repair",
        "stream_shardpack": "wshard.shardpack.stream",
        "unpack_shardpack": "wshard.shardpack.unpack",
        "verify_shardpack": "wshard.shardpack.verify",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted({*globals(), *__all__})
