"""One file of named, checksummed blocks: layout, reading, writing, codecs, atomic saving."""
