"""Background jobs of pages, run one at a time, with their progress."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from wshard.core.messages import error_text
from wshard.errors import EntryNotFoundError, RequestError, WShardError

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_JOBS: Final = 50  # kept with their results


class JobStoppedError(Exception):
    """Raised inside a job that somebody stopped."""


@dataclass
class Job:
    """One job: its state, progress, and result or error. The work reports to it as a Progress."""

    id: int
    kind: str
    who: str = ""
    state: str = "waiting"
    what: str = ""
    done: int = 0
    total: int = 0
    begun: float = field(default_factory=time.time)
    ended: float | None = None
    result: Any = None
    error: str = ""
    key: object = field(default=None, repr=False)
    stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    def stage(self, what: str, total: int) -> None:
        """Begin a stage of `total` items."""
        self.what, self.done, self.total = what, 0, total
        self.check_stopped()

    def advance(self, count: int) -> None:
        """Say that `count` more items of the stage are done."""
        self.done += count
        self.check_stopped()

    def check_stopped(self) -> None:
        """Raise JobStoppedError if somebody stopped the job."""
        if self.stopped.is_set():
            raise JobStoppedError


class Jobs:
    """Runs jobs one after another; the last ones are kept with their results."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "job")
        self._beside = ThreadPoolExecutor(2, "lasting job")

    def start(
        self, kind: str, work: Callable[[Job], Any], *, key: object = None, who: str = "", lasting: bool = False
    ) -> Job:
        """Begin a job, or return the one that is waiting or running already and does the same.

        key: equal for jobs that do the same, by default the kind. lasting: it runs until it is stopped, beside the
        others.
        """
        with self._lock:
            for running in self._jobs.values():
                if running.key == (key or kind) and running.state in ("waiting", "running"):
                    return running
            if sum(job.state == "waiting" for job in self._jobs.values()) >= _MAX_JOBS // 2:
                raise RequestError("expected fewer jobs: too many are waiting", 429)
            job = Job(next(self._numbers), kind, who, key=key or kind)
            self._jobs[job.id] = job
            for old in list(self._jobs)[:-_MAX_JOBS]:
                if self._jobs[old].state not in ("waiting", "running"):
                    del self._jobs[old]
        (self._beside if lasting else self._pool).submit(self._run, job, work)
        return job

    def _run(self, job: Job, work: Callable[[Job], Any]) -> None:
        try:
            job.check_stopped()  # while it was waiting
            job.state = "running"
            job.result = work(job)
            job.state = "done"
        except JobStoppedError:
            job.state = "stopped"
        except (WShardError, OSError) as error:
            job.state, job.error = "failed", error_text(error)
        except Exception as error:  # noqa: BLE001  (shown to the user who started the job)
            job.state, job.error = "failed", f"unexpected {type(error).__name__}: {error}"
        finally:
            job.ended = time.time()

    def all(self) -> list[Job]:
        """Return the jobs, the newest first."""
        with self._lock:
            return list(self._jobs.values())[::-1]

    def get(self, number: int) -> Job:
        """Return a job; EntryNotFoundError when there is none."""
        with self._lock:
            if number not in self._jobs:
                raise EntryNotFoundError(f"expected the id of a job, found {number}")
            return self._jobs[number]

    def close(self) -> None:
        """Stop what is running, and wait for it."""
        for job in self.all():
            job.stopped.set()
        for pool in (self._pool, self._beside):
            pool.shutdown(wait=True, cancel_futures=True)
