"""Record episodes in simulators as WShard files, as example data to catalogue and search."""
