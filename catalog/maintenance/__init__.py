"""Backup, restore and integrity of the catalog."""
