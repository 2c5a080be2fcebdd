"""An index in shards, which are actors of a cluster of Dask or Ray."""
