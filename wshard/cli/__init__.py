"""The verbs about files, and what all verbs of the command line share."""
