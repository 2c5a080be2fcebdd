"""Embedders for text: task descriptions by their meaning."""
