"""Subsequence alignment: where a query matches in an episode, and which timesteps correspond."""
