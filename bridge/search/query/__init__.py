"""Prepare queries: read their files, choose the Spaces that answer, and embed them once."""
