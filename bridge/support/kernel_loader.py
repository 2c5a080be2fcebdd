"""Loads compiled kernels in a thread, once it is worth it; until then numpy is used."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any, Final

_BRIEF: Final = 2e-5  # seconds after which the import lets a search go on, which gives way some dozens of times
_COMPILED_BEFORE: Final = 1.5  # seconds that loading takes at most where it need not compile, if nothing else goes on
_ONE_BY_ONE: Final = threading.Lock()  # numba compiles one at a time, and each sets the interval of the process
_ENDING: Final = threading.Event()  # of the process: none is to be loaded any more


class KernelLoader(MetaPathFinder):
    """A compiled kernel of this process; `module` is None until it is loaded.

    name: its module; worth_it: how much use is made before it is loaded: who has made so much will probably make more.
    It is loaded in a thread, while searches go on with numpy: numba takes half a second, and many seconds for the first
    compilation on a machine. Where numba is not installed, they always do. The process waits for the thread before it
    forks; where it ends, the thread gives up at the next module that it imports.
    """

    def __init__(self, name: str, worth_it: float) -> None:
        self.module: Any = None
        self._name = name
        self._left = worth_it
        self._thread: threading.Thread | None = None
        self._begun = 0.0

    def use(self, amount: float = 1, *, patience: float = 0) -> Any:
        """Count more use, and return the compiled module for it, or None.

        patience: seconds to wait for it where it is being loaded, 0 not to wait; longer if it may come any moment.
        """
        if self._left > 0:
            self._left -= amount
            if self._left <= 0:
                self._thread = threading.Thread(target=self._load, name=self._name, daemon=True)
                # Numba needs its lock, and a fork must take that after the join: last come, first.
                import_module("logging")
                os.register_at_fork(before=self.wait)
                atexit.register(self._end)
                self._begun = time.monotonic()
                self._thread.start()
        if patience > 0 and self.module is None and self._thread is not None:
            self._thread.join(max(patience, self._begun + _COMPILED_BEFORE - time.monotonic()))
        return self.module

    def wait(self) -> None:
        """Wait for the module, where it is being loaded."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def find_spec(self, *_: object) -> None:
        """Find nothing, but end the thread that loads the module where the process is ending."""
        if _ENDING.is_set() and threading.current_thread() is self._thread:
            raise SystemExit

    def _end(self) -> None:
        _ENDING.set()
        self.wait()

    def _load(self) -> None:
        with _ONE_BY_ONE:
            usual = sys.getswitchinterval()
            sys.setswitchinterval(_BRIEF)
            sys.meta_path.insert(0, self)
            try:
                import_module("numba")
                self.module = import_module(self._name)
            except Exception:  # noqa: BLE001  (not installed, or broken: whatever it is, numpy goes on)
                return
            finally:
                sys.meta_path.remove(self)
                sys.setswitchinterval(usual)
