"""`python -m wshard.cli`: run the installed command, as in the reference package of the format."""

from __future__ import annotations

from wshard.cli.command import main

if __name__ == "__main__":
    main()
