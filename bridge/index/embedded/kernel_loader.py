"""Which kernel walks over lists and rows: numpy's at first, and numba's from some searches on.

Knows: when it pays to load numba, which takes up to a second, and how that stays out of the way of searches, of the end
of the process and of a fork. Does not know: what the kernel does.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from importlib import import_module
from typing import Any, Final

WORTH_IT: Final = 100  # walks; most searches make one


class Kernel:
    """The compiled kernel of a process, once that has made a hundred walks; `module` is None until then.

    It is loaded in a thread, while searches go on with numpy. Where numba is not installed, they always do. The process
    waits for the thread before it ends or forks.
    """

    def __init__(self, worth_it: int = WORTH_IT) -> None:
        self.module: Any = None
        self._left = worth_it
        self._thread: threading.Thread | None = None

    def walked(self) -> Any:
        """Count one more walk, and return the compiled module for it, or None."""
        if self._left > 0:
            self._left -= 1
            if self._left == 0:
                self._thread = threading.Thread(target=self._load, name="index-kernel")
                import_module("logging")  # numba needs its lock, which a fork is to take after settle: last come, first
                os.register_at_fork(before=self.settle)
                self._thread.start()
        return self.module

    def settle(self) -> None:
        """Wait for the module, where it is being loaded."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _load(self) -> None:
        try:
            import_module("numba")
            if threading.main_thread().is_alive():  # else the process is ending: nobody will search any more
                self.module = import_module("bridge.index.embedded.numba_kernel")
        except Exception:  # noqa: BLE001  (not installed, or broken: whatever it is, numpy goes on)
            return


@cache
def kernel() -> Kernel:
    """Return the kernel of this process."""
    return Kernel()
