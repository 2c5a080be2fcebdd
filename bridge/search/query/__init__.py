"""From what a caller asks for to a prepared query."""
