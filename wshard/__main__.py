"""`python -m wshard`: the installed command."""

from __future__ import annotations

from wshard.cli.command import main

if __name__ == "__main__":
    main()
