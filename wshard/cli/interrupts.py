"""Handle Ctrl-C in every phase of a command: while it starts, works, cleans up and exits."""

from __future__ import annotations

import atexit
import os
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

_EXIT_INTERRUPTED: Final = 128 + signal.SIGINT


def end_when_interrupted() -> None:
    """Exit immediately on Ctrl-C, before and after any work. A process that ignores Ctrl-C keeps ignoring it.

    At the very end it has no effect: there Python has no handlers any more, and the signal would hide the exit code.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # first registered, last called
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _interrupt):
        signal.signal(signal.SIGINT, _end)


def interrupt_once() -> None:
    """Raise KeyboardInterrupt on Ctrl-C, and exit at once on a second one."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end):
        signal.signal(signal.SIGINT, _interrupt)


def begin_work() -> None:
    """Let the work of a command clean up on Ctrl-C, at which it exits at once before: there Typer would say nothing."""
    if signal.getsignal(signal.SIGINT) is _end:
        interrupt_once()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _end)
    raise KeyboardInterrupt


def _end(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"\ninterrupted\n")
    os._exit(_EXIT_INTERRUPTED)
