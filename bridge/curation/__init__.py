"""What vectors say about a data set: copies, leaks, outliers, subsets, weights, doubtful labels."""
