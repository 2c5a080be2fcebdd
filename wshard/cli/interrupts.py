"""Ctrl-C that ends a command in one line: while it starts, while it works, a second time, and while it leaves.

Whatever is written must bear a process that ends at any moment.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

_EXIT_INTERRUPTED: Final = 128 + signal.SIGINT


def end_when_interrupted() -> None:
    """End at once at Ctrl-C: nothing has begun yet. A process that ignores Ctrl-C goes on ignoring it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def interrupt_once() -> None:
    """Raise KeyboardInterrupt at Ctrl-C, as ever, and end at once at one that comes while that is dealt with."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end):
        signal.signal(signal.SIGINT, _interrupt)


def interrupts_over() -> None:
    """Leave Ctrl-C to the system once the answer is given: nothing is left to say it to while Python goes home."""
    if signal.getsignal(signal.SIGINT) in (_interrupt, _end):
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _end)
    raise KeyboardInterrupt


def _end(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"\ninterrupted: what is finished stays; run the same command again to go on\n")
    os._exit(_EXIT_INTERRUPTED)
