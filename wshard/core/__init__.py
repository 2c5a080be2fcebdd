"""The first storey: episodes in files of our own format, and all that this takes; knows no other format."""
