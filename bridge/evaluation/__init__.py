"""Measure how good the search is on labels of an archive."""
