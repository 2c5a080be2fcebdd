"""The index on a DeepData server; WIRE.md describes the server's observed behaviour."""
