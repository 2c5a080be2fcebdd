"""Data sets of world models: columns of the rows of all episodes, in HDF5, folders, videos or Lance tables."""
