"""The ledger of embeddings, and the state of their copies in vector indexes."""
