"""`python -m wshard.cli`: the installed command, under the name that the format's reference package has for it."""

from __future__ import annotations

from wshard.cli.command import main

if __name__ == "__main__":
    main()
