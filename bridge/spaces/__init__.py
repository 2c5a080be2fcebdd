"""The Spaces of an archive: which lanes they embed, their statistics, and the choice among them."""
