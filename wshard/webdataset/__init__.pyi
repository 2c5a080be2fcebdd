from wshard.webdataset.options import ShardifyOptions as ShardifyOptions
from wshard.webdataset.export import ShardifyReport as ShardifyReport
from wshard.webdataset.export import shardify as shardify
