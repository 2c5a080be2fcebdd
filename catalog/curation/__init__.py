"""Tags, notes, reviews, scores and collections."""
