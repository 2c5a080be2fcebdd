"""Values as JSON-able dicts, for the command line and for web pages: hits, episodes, findings, reports."""
