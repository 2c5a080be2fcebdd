"""Windowed WebDataset shards for training, from episodes of any format: `shardify`, `ShardifyOptions`."""

from wshard.core.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
