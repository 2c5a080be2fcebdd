"""Which Spaces an archive has, which lanes they embed, and their statistics."""
