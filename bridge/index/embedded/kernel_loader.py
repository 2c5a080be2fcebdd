"""Loads the compiled kernel in a thread, once so many scans were made that it pays; until then numpy is used."""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from importlib import import_module
from typing import Any, Final

WORTH_IT: Final = 1000  # scans; searches make one to three, and loading costs what compiled ones save in about so many
_BRIEF: Final = 2e-5  # seconds after which the import lets a search go on, which gives way some dozens of times


class KernelLoader:
    """The compiled kernel of a process, once that has made a thousand scans; `module` is None until then.

    It is loaded in a thread, while searches go on with numpy. Where numba is not installed, they always do. The process
    waits for the thread before it ends or forks.
    """

    def __init__(self, worth_it: int = WORTH_IT) -> None:
        self.module: Any = None
        self._left = worth_it
        self._thread: threading.Thread | None = None

    def use(self) -> Any:
        """Count one more scan, and return the compiled module for it, or None."""
        if self._left > 0:
            self._left -= 1
            if self._left == 0:
                self._thread = threading.Thread(target=self._load, name="index-kernel")
                import_module(
                    "logging"
                )  # whose lock numba needs, and a fork must take after the join: last come, first
                os.register_at_fork(before=self.wait)
                self._thread.start()
        return self.module

    def wait(self) -> None:
        """Wait for the module, where it is being loaded."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _load(self) -> None:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_BRIEF)
        try:
            import_module("numba")
            if threading.main_thread().is_alive():  # else the process is ending: nobody will search any more
                self.module = import_module("bridge.index.embedded.numba_kernel")
        except Exception:  # noqa: BLE001  (not installed, or broken: whatever it is, numpy goes on)
            return
        finally:
            sys.setswitchinterval(usual)


@cache
def get_kernel() -> KernelLoader:
    """Return the kernel of this process."""
    return KernelLoader()
