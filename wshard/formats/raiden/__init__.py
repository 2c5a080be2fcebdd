"""Episodes that Raiden converted: a folder each, with a pickle and camera images for every timestep."""
