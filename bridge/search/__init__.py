"""Find episodes and moments: TrajectoryRetriever."""
