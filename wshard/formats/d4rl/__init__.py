"""Concatenated rows of all episodes, whose ends are flagged: D4RL and OGBench."""
