from wshard.reference.shard import *
