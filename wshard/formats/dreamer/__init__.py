"""DreamerV3 replay: files, and folders in which episodes cross files."""
