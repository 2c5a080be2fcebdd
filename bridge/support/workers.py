"""Apply a function to batches, in this process or in worker processes."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from bridge.support.blas_threads import blas_threads, one_blas_thread
from bridge.support.dask_workers import SCHEME, dask_workers
from bridge.support.garbage import begin_collecting_rarely, collect_rarely, give_back
from bridge.support.result_files import StoredResult, StoringResults
from bridge.support.sendable import check_sendable
from wshard.core.arguments import whole_number
from wshard.core.messages import shown
from wshard.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType

Item = TypeVar("Item")
Result = TypeVar("Result")

PROCESSES: Final = "processes"

_GIVEN_BACK: Final = 8  # batches, after which memory that is free in between is returned


class Workers(Protocol):
    """Runs a function over batches, in order; sharing: processes of this machine that do."""

    sharing: int

    def each(
        self,
        function: Callable[[Sequence[Item]], Result],
        batches: Iterable[Sequence[Item]],
        on_loss: Callable[[Item], Result] | None = None,
    ) -> Iterator[Result]:
        """Yield function(batch) for each batch, in order; only a few batches are in progress at a time.

        on_loss: makes the result of an item that ends whatever process gets it, where others can go on without it.
        Raises EmbedderError if function or batch cannot be pickled, IngestError if workers died.
        """


class _LocalWorkers:
    """Runs here, and in the processes of a pool, if there is one."""

    def __init__(self, pool: ProcessPoolExecutor | None, count: int, folder: str = "") -> None:
        """folder: for results on their way from the pool."""
        self._pool = pool
        self._count = count
        self._folder = folder
        self.sharing = 1 + count
        self._max_submitted = 2 * count + 1  # batches submitted to the pool, which goes on while this process has one
        self._max_pending = 4 * count + 1  # these, and results that wait for an earlier batch

    def each(
        self,
        function: Callable[[Sequence[Item]], Result],
        batches: Iterable[Sequence[Item]],
        on_loss: Callable[[Item], Result] | None = None,  # noqa: ARG002  (an item that ends a process ends this one, too)
    ) -> Iterator[Result]:
        """See Workers; until others have started, which takes a second, and while they are busy, this process works."""
        remaining = iter(batches)
        first = list(islice(remaining, 2))
        if self._pool is not None and first:
            check_sendable(function, first[0])
        if self._pool is None or len(first) < 2:
            results: Iterator[Result] = map(function, chain(first, remaining))
        else:
            results = self._shared(self._pool, function, chain(first, remaining))
        for number, result in enumerate(results, 1):
            yield result
            if number % _GIVEN_BACK == 0:
                give_back()

    def _shared(
        self,
        pool: ProcessPoolExecutor,
        function: Callable[[Sequence[Item]], Result],
        batches: Iterable[Sequence[Item]],
    ) -> Iterator[Result]:
        pending: deque[Future[StoredResult[Result]]] = deque()
        storing = StoringResults(function, self._folder)
        try:
            with interrupts_held():
                started = [pool.submit(_get_ready, function) for _ in range(self._count)]
            for batch in batches:
                if not any(one.done() for one in started):
                    yield function(batch)
                elif sum(not one.done() for one in pending) < self._max_submitted:
                    check_sendable(function, batch)
                    with interrupts_held():
                        pending.append(pool.submit(storing, batch))
                else:
                    pending.append(Future())
                    pending[-1].set_result(StoredResult(result=function(batch)))
                # One result at a time, so that the pool gets its next batch before what is done with the others.
                if pending and (pending[0].done() or len(pending) > self._max_pending):
                    yield pending.popleft().result().take()
            while pending:
                yield pending.popleft().result().take()
        except BrokenProcessPool as error:
            raise IngestError(
                "a worker process died: expected enough memory, and, in a script that is run as a program, the call "
                'below `if __name__ == "__main__":` because workers import the script; committed work is kept'
            ) from error
        finally:
            for future in pending:
                future.cancel()


THIS_PROCESS: Final[Workers] = _LocalWorkers(None, 0)
"""Works here."""


def _get_ready(_function: object) -> None:
    """Do nothing; unpickling the function makes a worker process import what it needs."""


@contextmanager
def workers(count: int, executor: str = PROCESSES, places: Iterable[str] = ()) -> Iterator[Workers]:
    """Run work in `count` processes, including this one; the others end afterwards, as after Ctrl-C.

    executor: PROCESSES, or the dask://HOST:PORT of a cluster, whose workers must see the places; see dask_workers.

    They start with the first work that is large enough. Each process, including this one, uses one BLAS thread: frames
    and windows are small, and more threads would only spin. It collects garbage rarely. Raises IngestError unless the
    count is a whole number >= 1.
    """
    count = whole_number(count, "workers_count", IngestError, least=1)
    if not executor.startswith(SCHEME) and executor != PROCESSES:
        raise IngestError(f"executor: expected {PROCESSES!r} or dask://HOST:PORT, found {shown(executor)}")
    with one_blas_thread(), collect_rarely():
        if executor != PROCESSES:
            with dask_workers(executor, places) as found:
                yield found
            return
        if count == 1:
            yield _LocalWorkers(None, 0)
            return
        # spawn: a forked child would share database connections and BLAS threads with its parent
        with TemporaryDirectory(prefix="wshard-", ignore_cleanup_errors=True) as folder:
            pool = ProcessPoolExecutor(
                count - 1, mp_context=get_context("spawn"), initializer=begin, initargs=(folder,)
            )
            try:
                yield _LocalWorkers(pool, count - 1, folder)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all of them: they inherit the blocked signal.

    An interrupt during the start is delivered afterwards, so that no process is left half started with a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    received: list[tuple[int, FrameType | None]] = []
    # The signal is blocked for this thread only: another one may receive it, and Python then calls the handler here.
    deferred = callable(handler) and threading.current_thread() is threading.main_thread()
    if deferred:
        signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if deferred:
            signal.signal(signal.SIGINT, handler)
        if received and callable(handler):
            handler(*received[0])


def begin(folder: str = "") -> None:
    """Start a worker process: it has one thread of BLAS, collects garbage rarely, and ends with its parent.

    folder: removed then, if the parent was killed; "" for none.
    """
    blas_threads().limit(limits=1)
    begin_collecting_rarely()
    end_with_parent(folder)


def end_with_parent(folder: str = "") -> None:
    """End this worker when its parent ends: after a kill -9, workers of a pool would otherwise wait for ever."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.join, folder), daemon=True).start()


def _end_with(join_parent: Callable[[], None], folder: str) -> None:
    join_parent()
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
