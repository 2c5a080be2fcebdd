"""`python -m wshard`: the installed command, whichever package provides it.

Knows: the name of the command. The packages above this one register it, so nothing of them is imported here.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points


def main() -> None:
    """Run the console command `wshard`; exits with its code."""
    command = next(iter(entry_points(group="console_scripts", name="wshard")), None)
    if command is None:
        sys.exit("error: the command wshard is not installed: pip install wshard")
    command.load()()


if __name__ == "__main__":
    main()
