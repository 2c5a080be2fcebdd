"""The embedded default index: exact search over memory-mapped copies of the ledger's vectors (`EmbeddedIndex`)."""
