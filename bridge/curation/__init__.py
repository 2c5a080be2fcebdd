"""Data curation by vectors: duplicates, leaks, outliers, subsets, weights and doubtful labels."""
