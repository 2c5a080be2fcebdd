from wshard.training.shardpack.columns import ColumnPacks as ColumnPacks
from wshard.training.shardpack.layout import MetadataEncoding as MetadataEncoding
from wshard.training.shardpack.writer import NewEntry as NewEntry
from wshard.training.shardpack.verify import PackCheck as PackCheck
from wshard.training.shardpack.layout import PackCodec as PackCodec
from wshard.training.shardpack.codecs import PackCompression as PackCompression
from wshard.training.shardpack.record import RecordMetadata as RecordMetadata
from wshard.training.shardpack.writer import ShardLimits as ShardLimits
from wshard.training.shardpack.record import ShardPackEntry as ShardPackEntry
from wshard.training.shardpack.reader import ShardPackReader as ShardPackReader
from wshard.training.shardpack.record import ShardPackRecord as ShardPackRecord
from wshard.training.shardpack.pack_set import ShardPackSet as ShardPackSet
from wshard.training.shardpack.writer import ShardPackWriter as ShardPackWriter
from wshard.training.shardpack.unpack import UnpackReport as UnpackReport
from wshard.training.shardpack.shards import expand_shards as expand_shards
from wshard.training.shardpack.inspect import inspect_shardpack as inspect_shardpack
from wshard.training.shardpack.inspect import is_shardpack as is_shardpack
from wshard.training.shardpack.pack import pack_sources as pack_sources
from wshard.training.shardpack.repair import repair_shardpack as repair_shardpack
from wshard.training.shardpack.stream import stream_shardpack as stream_shardpack
from wshard.training.shardpack.unpack import unpack_shardpack as unpack_shardpack
from wshard.training.shardpack.verify import verify_shardpack as verify_shardpack

open = ShardPackReader
