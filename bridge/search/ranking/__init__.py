"""Rank episodes by vectors, views and words."""
