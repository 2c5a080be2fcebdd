"""Episodes recorded step by step, safe against crashes."""
