"""The entry point of the command `wshard`: handles Ctrl-C, and sets what must be set before the slow imports."""

from __future__ import annotations

import gc
import os

from wshard.cli.interrupts import end_when_interrupted


def main() -> None:
    """Run the command."""
    end_when_interrupted()  # before anything else is imported
    from bridge.support.garbage import begin_collecting_rarely

    begin_collecting_rarely()
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # its own pool keeps what was freed: 17 MB and more
    from bridge.cli.main import main as run

    try:
        run()
    finally:
        gc.freeze()  # or the interpreter looks through all objects at its end, which takes a tenth of a short command
