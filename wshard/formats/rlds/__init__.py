"""RLDS data sets (TFDS): episodes in TFRecord or ArrayRecord shards, read and written in place."""
