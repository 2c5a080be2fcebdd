"""One episode in several files, listed by a manifest."""
