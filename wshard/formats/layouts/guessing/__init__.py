"""Guess the layout of files: what each array is, where episodes are, or the readings that are equally likely."""
