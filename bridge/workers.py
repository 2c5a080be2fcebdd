"""Work in parallel: the same function over batches, here or in worker processes.

Knows: processes and interrupts. Does not know: what the function does.
"""

from __future__ import annotations

import pickle
import signal
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, TypeVar

from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Batch = TypeVar("Batch")
Result = TypeVar("Result")


class Workers:
    """Runs a function over batches in order; count 1 means in this process."""

    def __init__(self, pool: ProcessPoolExecutor | None, count: int) -> None:
        self._pool = pool
        self._ahead = 2 * count

    def each(self, function: Callable[[Batch], Result], batches: Iterable[Batch]) -> Iterator[Result]:
        """Yield function(batch) for each batch, in order; only a few batches are under way at a time.

        Raises EmbedderError where function or batch cannot be sent to another process.
        """
        if self._pool is None:
            yield from map(function, batches)
            return
        waiting: deque[Future[Result]] = deque()
        try:
            for batch in batches:
                waiting.append(self._submit(function, batch))
                if len(waiting) > self._ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _submit(self, function: Callable[[Batch], Result], batch: Batch) -> Future[Result]:
        try:
            pickle.dumps((function, batch))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise EmbedderError(f"workers > 1 need an embedder that pickle can send: {error}") from error
        if self._pool is None:
            raise EmbedderError("no workers")
        return self._pool.submit(function, batch)


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """Start `count` worker processes (none for 1) and end them afterwards, also after Ctrl-C."""
    if count <= 1:
        yield Workers(None, 1)
        return
    # spawn: a forked child would share database connections and BLAS threads with its parent
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_leave_interrupts_to_the_parent)
    try:
        yield Workers(pool, count)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _leave_interrupts_to_the_parent(*_: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
