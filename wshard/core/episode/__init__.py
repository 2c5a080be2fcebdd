"""One episode as the blocks of a container: lanes, metadata, encoding, decoding, residuals."""
