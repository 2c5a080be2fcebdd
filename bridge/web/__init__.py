"""The browser app: one JSON API over an open archive, and the pages that show it."""
