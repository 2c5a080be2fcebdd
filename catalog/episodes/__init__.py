"""Register episodes and reconcile them with those in the catalog."""
