"""Train an encoder on the episodes of an archive."""
