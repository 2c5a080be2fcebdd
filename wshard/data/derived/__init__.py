"""Data sets made of others: side by side, one after the other, parts, windows, goals."""
