"""Import paths of the format's reference package: names only, what they do is in the storeys below."""
