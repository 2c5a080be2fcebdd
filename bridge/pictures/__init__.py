"""Questions asked by picture: features of camera frames, computed once, and what is found among them."""
