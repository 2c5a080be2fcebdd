"""Background work: one job at a time, in its own thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class BackgroundJob:
    """Runs one job at a time; what a job raised is raised by the next call of `wait` or `raise_failure`."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failed: Exception | None = None

    @property
    def busy(self) -> bool:
        """Say whether a job is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, job: Callable[[], object]) -> None:
        """Run the job in a thread; only while none is running. A process does not end before its job has."""
        self._thread = threading.Thread(target=self._run, args=(job,), name="background-job")
        self._thread.start()

    def _run(self, job: Callable[[], object]) -> None:
        try:
            job()
        except Exception as error:  # noqa: BLE001  (raised by raise_failure(), in the caller's thread)
            self._failed = error

    def wait(self) -> None:
        """Wait for the running job, if any; raises its exception."""
        if self._thread is not None:
            self._thread.join()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise, once, what an ended job raised."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
