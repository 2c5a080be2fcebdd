"""The ledger of embeddings, and what is known of copies in vector indexes."""
