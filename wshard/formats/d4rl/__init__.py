"""Concatenated rows of all episodes with flags at their ends: D4RL and OGBench."""
