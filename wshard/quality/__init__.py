"""Checks of an episode's arrays: timeline, channels, stalls, lag. What is measured, what is usual, what is flagged.

Knows numbers only. Does not know: files, the catalog, who asks (bridge/quality/judge.py).
"""
