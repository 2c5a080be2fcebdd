"""Data curation by vectors: duplicates, leaks, outliers, subsets, weights and doubtful labels."""

from wshard.core.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
