"""Checks of an episode's arrays: timeline, channels, stalls, lag."""
