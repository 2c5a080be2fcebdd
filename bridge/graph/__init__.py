"""The neighbour graph of a Space: which episodes are near each other, and what spreads along it."""
