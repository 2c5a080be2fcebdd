"""One episode in several files beside a manifest."""
