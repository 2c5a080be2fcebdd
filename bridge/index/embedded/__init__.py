"""The embedded index: memory-mapped search copies with exact answers."""
