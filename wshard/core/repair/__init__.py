"""Inspect files, and repair damaged and interleaved ones."""
