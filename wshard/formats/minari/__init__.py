"""Minari data sets: a folder with metadata.json and episodes in HDF5, Arrow or Parquet."""
