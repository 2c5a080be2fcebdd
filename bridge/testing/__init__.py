"""Contract tests for vector indexes, with a brute-force reference."""
