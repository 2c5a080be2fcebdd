"""Text encoders: task descriptions by meaning."""
