"""Take episodes in: find, register, embed, and bring the index up to date."""
