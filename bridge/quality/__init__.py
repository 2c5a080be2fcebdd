"""Check episodes of an archive and compare them with its baseline."""
