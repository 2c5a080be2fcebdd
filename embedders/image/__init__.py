"""Embedders for lanes of images."""
