"""Camera frames encoded as JPEG, PNG or MP4, decoded on access."""

from wshard.core.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
