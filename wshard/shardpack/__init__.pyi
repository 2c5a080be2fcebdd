from wshard.shardpack.columns import ColumnPacks as ColumnPacks
from wshard.shardpack.layout import MetadataEncoding as MetadataEncoding
from wshard.shardpack.writer import NewEntry as NewEntry
from wshard.shardpack.verify import PackCheck as PackCheck
from wshard.shardpack.layout import PackCodec as PackCodec
from wshard.shardpack.codecs import PackCompression as PackCompression
from wshard.shardpack.record import RecordMetadata as RecordMetadata
from wshard.shardpack.writer import ShardLimits as ShardLimits
from wshard.shardpack.record import ShardPackEntry as ShardPackEntry
from wshard.shardpack.reader import ShardPackReader as ShardPackReader
from wshard.shardpack.record import ShardPackRecord as ShardPackRecord
from wshard.shardpack.pack_set import ShardPackSet as ShardPackSet
from wshard.shardpack.writer import ShardPackWriter as ShardPackWriter
from wshard.shardpack.unpack import UnpackReport as UnpackReport
from wshard.shardpack.shards import expand_shards as expand_shards
from wshard.shardpack.inspect import inspect_shardpack as inspect_shardpack
from wshard.shardpack.inspect import is_shardpack as is_shardpack
from wshard.shardpack.pack import pack_sources as pack_sources
from wshard.shardpack.repair import repair_shardpack as repair_shardpack
from wshard.shardpack.stream import stream_shardpack as stream_shardpack
from wshard.shardpack.unpack import unpack_shardpack as unpack_shardpack
from wshard.shardpack.verify import verify_shardpack as verify_shardpack

open = ShardPackReader
