"""The command line of all verbs, made once for all tests that run it within their process."""

from bridge.cli.main import make_app

app = make_app()
