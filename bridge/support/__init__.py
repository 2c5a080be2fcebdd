"""Support for several rooms: progress, workers, batches, locks."""
