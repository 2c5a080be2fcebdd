"""Encoders of pictures, and of words where they have them, from folders on this machine."""
