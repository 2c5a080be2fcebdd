from wshard.training.shardpack import *
