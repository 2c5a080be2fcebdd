"""Find moments: spans of episodes, refined by alignment."""
