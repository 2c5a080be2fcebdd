"""Training data: clips, goals, replay, scalers and writers, over episodes of any format."""

from wshard.core.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
