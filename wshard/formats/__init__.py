"""Other programs' episode formats, each behind the two Protocols of formats/base.py."""
