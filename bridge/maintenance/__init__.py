"""Check and repair archives: files, vectors, indexes, health."""
