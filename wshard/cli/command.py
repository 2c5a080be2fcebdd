"""Run the installed command `wshard` from Python or with `python -m`."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, NoReturn

from wshard.cli.interrupts import end_when_interrupted
from wshard.core.messages import how_to_install

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the console command `wshard` with these arguments (default: those of the process) and exit with its code.

    The command is found by its entry point, as the packages that define it may not be imported here.
    """
    end_when_interrupted()
    if argv is not None:
        sys.argv[1:] = argv
    command = next(iter(entry_points(group="console_scripts", name="wshard")), None)
    if command is None:
        sys.exit(f"error: the command wshard is not installed: {how_to_install()}")
    try:
        run = command.load()
    except ImportError as error:
        from wshard.cli.doctor import find_hiding

        sys.exit("\n".join(f"error: {text}" for text in (error, *find_hiding())))
    sys.exit(run())
