"""Loads the compiled kernel in a thread, once several searches were made; until then numpy is used."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any, Final

WORTH_IT: Final = 30  # scans: a search makes one to three, and who has made ten of them will probably make more
_BRIEF: Final = 2e-5  # seconds after which the import lets a search go on, which gives way some dozens of times


class KernelLoader(MetaPathFinder):
    """The compiled kernel of a process, once that has made some scans; `module` is None until then.

    It is loaded in a thread, while searches go on with numpy. Where numba is not installed, they always do. The process
    waits for the thread before it forks; where it ends, the thread gives up at the next module that it imports.
    """

    def __init__(self, worth_it: int = WORTH_IT) -> None:
        self.module: Any = None
        self._left = worth_it
        self._thread: threading.Thread | None = None
        self._ending = False

    def use(self) -> Any:
        """Count one more scan, and return the compiled module for it, or None."""
        if self._left > 0:
            self._left -= 1
            if self._left == 0:
                self._thread = threading.Thread(target=self._load, name="index-kernel", daemon=True)
                import_module(
                    "logging"
                )  # whose lock numba needs, and a fork must take after the join: last come, first
                os.register_at_fork(before=self.wait)
                atexit.register(self._end)
                self._thread.start()
        return self.module

    def wait(self) -> None:
        """Wait for the module, where it is being loaded."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def find_spec(self, *_: object) -> None:
        """Find nothing, but end the thread that loads the module where the process is ending."""
        if self._ending and threading.current_thread() is self._thread:
            raise SystemExit

    def _end(self) -> None:
        self._ending = True
        self.wait()

    def _load(self) -> None:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_BRIEF)
        sys.meta_path.insert(0, self)
        try:
            import_module("numba")
            self.module = import_module("bridge.index.embedded.numba_kernel")
        except Exception:  # noqa: BLE001  (not installed, or broken: whatever it is, numpy goes on)
            return
        finally:
            sys.meta_path.remove(self)
            sys.setswitchinterval(usual)


@cache
def get_kernel() -> KernelLoader:
    """Return the kernel of this process."""
    return KernelLoader()
