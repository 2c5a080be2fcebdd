"""Find similar episodes and moments: TrajectoryRetriever."""
