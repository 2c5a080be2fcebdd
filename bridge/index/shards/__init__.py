"""An index in shards, which are actors of a Dask cluster."""
