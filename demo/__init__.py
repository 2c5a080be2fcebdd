"""Real episodes from simulators, recorded as WShard files: something to catalogue and search on the first day."""
