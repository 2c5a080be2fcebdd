"""The index on a DeepData server; WIRE.md says what the server really does."""
