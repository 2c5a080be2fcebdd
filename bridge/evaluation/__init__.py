"""Evaluate the search on labels of an archive."""
