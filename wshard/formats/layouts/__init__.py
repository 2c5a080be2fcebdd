"""Layouts: descriptions, as data, of how files hold episodes. One Source reads them all (docs/layouts.md)."""
