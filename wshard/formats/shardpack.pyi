from wshard.training.shardpack.episodes import *
