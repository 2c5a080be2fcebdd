"""The catalog: which episodes exist and where, their annotations, and what has been embedded."""

from wshard.core.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
