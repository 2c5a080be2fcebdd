"""The filter language: one value, three notations, evaluation in Python and in SQL."""
