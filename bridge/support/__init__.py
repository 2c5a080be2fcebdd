"""Progress, workers, batches, locks: what several rooms of this package need."""
