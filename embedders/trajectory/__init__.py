"""Embedders for lanes of numbers over time."""
