"""Contract tests and generators for databases behind the catalog."""
