"""The rows of all episodes one after the other, which end where a flag says so: D4RL and OGBench."""
