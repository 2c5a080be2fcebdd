"""Data sets derived from others: merged columns, concatenation, subsets, windows, goals."""
