"""Embedders that run or train neural networks."""
