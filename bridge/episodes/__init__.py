"""The only room of this package that touches episode files: find, read, measure."""
