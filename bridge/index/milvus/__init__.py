"""The index on a Milvus server: the client of such a server, behind what checks a DeepData server."""
