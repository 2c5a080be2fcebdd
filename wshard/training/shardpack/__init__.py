"""ShardPack: many records of several named files each in one file, with random access by number and key."""

from wshard.core.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
