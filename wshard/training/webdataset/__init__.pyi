from wshard.training.webdataset.options import ShardifyOptions as ShardifyOptions
from wshard.training.webdataset.export import ShardifyReport as ShardifyReport
from wshard.training.webdataset.export import shardify as shardify
