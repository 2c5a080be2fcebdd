"""The filter language: filters as values, three notations, evaluation in Python and in SQL."""
