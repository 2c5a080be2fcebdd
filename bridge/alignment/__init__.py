"""Subsequence alignment: where in an episode a query lies, and which of its steps meet which."""
