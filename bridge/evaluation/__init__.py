"""Evaluate the search on labels of an archive."""

from wshard.core.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
