"""Loads the compiled kernel in a thread once alignment was used enough to pay off; until then numpy is used."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any, Final

_BRIEF: Final = 2e-5  # seconds; switch interval during the import, so that other threads are barely delayed


class KernelLoader(MetaPathFinder):
    """A compiled kernel of this process; `module` is None until it is loaded.

    name: its module; worth_it: the amount of use after which it is loaded, as more use is then likely. It is loaded in
    a thread while searches go on with numpy: loading numba takes half a second, and the first compilation on a machine
    many seconds. Without numba, searches always use numpy. The process waits for the thread before it forks; when the
    process ends, the thread stops at the next module that it imports.
    """

    def __init__(self, name: str, worth_it: float) -> None:
        self.module: Any = None
        self._name = name
        self._left = worth_it
        self._thread: threading.Thread | None = None
        self._is_ending = False  # the process is

    def use(self, amount: float = 1, *, max_wait_s: float = 0) -> Any:
        """Count an amount of use, and return the compiled module, or None until it is loaded.

        max_wait_s: seconds to wait while it is loading, 0 = return at once.
        """
        if self._left > 0:
            self._left -= amount
            if self._left <= 0:
                self._thread = threading.Thread(target=self._load, name=self._name, daemon=True)
                # Importing numba takes the lock of logging, so a fork must join first: hooks run in reverse order.
                import_module("logging")
                os.register_at_fork(before=self.wait)
                atexit.register(self._end)
                self._thread.start()
        if max_wait_s > 0 and self.module is None and self._thread is not None:
            self._thread.join(max_wait_s)
        return self.module

    def wait(self) -> None:
        """Wait until the module is loaded, if it is loading."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def find_spec(self, *_: object) -> None:
        """Find nothing, but end the loading thread if the process is ending."""
        if self._is_ending and threading.current_thread() is self._thread:
            raise SystemExit

    def _end(self) -> None:
        self._is_ending = True
        self.wait()

    def _load(self) -> None:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_BRIEF)
        sys.meta_path.insert(0, self)
        try:
            import_module("numba")
            self.module = import_module(self._name)
        except Exception:  # noqa: BLE001  (not installed, or broken: numpy is used)
            return
        finally:
            sys.meta_path.remove(self)
            sys.setswitchinterval(usual)
