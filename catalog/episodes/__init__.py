"""Register episodes and reconcile them with what the catalog holds."""
