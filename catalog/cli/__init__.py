"""The verbs about the catalog."""
