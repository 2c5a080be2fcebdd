"""What it takes to keep an index on a DeepData server; bridge/WIRE.md says what the server really does."""
