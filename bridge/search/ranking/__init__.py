"""Rank episodes and windows by vectors in several views, and by text."""
