"""Apply a function to batches on the workers of a Dask cluster; what commits the results stays in this process."""

from __future__ import annotations

import logging
import time
from collections import deque
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bridge.support.blas_threads import blas_threads
from bridge.support.sendable import check_sendable
from bridge.support.waiting import Waiting
from wshard import __version__
from wshard.core.files.schemes import place_of
from wshard.core.messages import shown
from wshard.core.plugins import import_library
from wshard.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")

SCHEME: Final = "dask://"
_CONNECT: Final = 10.0  # seconds to wait for the scheduler
_LOG: Final = logging.getLogger(__name__)  # see Waiting
_WORKERLESS: Final = 60.0  # seconds without any worker after which the work ends
_POLL: Final = 5.0
_PARTS: Final = 4  # into which a batch that ends workers is divided


class DaskWorkers:
    """Runs a function over batches on the workers of a cluster, in order; see Workers."""

    sharing = 1  # what they get may take longer than here, and is all of one size

    def __init__(self, client: Any, places: Sequence[str]) -> None:
        self._client = client
        self._places = tuple(places)
        self._killed: type[Exception] = import_library("distributed", "dask").KilledWorker

    def each(
        self,
        function: Callable[[Sequence[Item]], Result],
        batches: Iterable[Sequence[Item]],
        on_loss: Callable[[Item], Result] | None = None,
    ) -> Iterator[Result]:
        """Yield function(batch) for each batch, in order; twice as many as there are threads are in progress.

        What a lost worker had is done again by another. A batch that ends several workers is done in smaller parts, one
        at a time, until one item is left, whose result is on_loss(item). Raises IngestError without a scheduler, or
        without workers for a minute.
        """
        pending: deque[tuple[Sequence[Item], Any]] = deque()
        most = 2 * sum(self._ask().values())
        try:
            for batch in batches:
                pending.append((batch, self._submit(function, batch)))
                if len(pending) > most:
                    yield from self._take(function, pending, on_loss)
            while pending:
                yield from self._take(function, pending, on_loss)
        finally:
            for _, future in pending:
                future.cancel()

    def check_each(self) -> None:
        """Raise IngestError unless every worker has this version and sees the places."""
        waiting = Waiting(_name(self._client))
        with _scheduler_errors(self._client), waiting.announce(["no answer yet of all workers"]):
            answers = self._client.run(_find_fault, __version__, self._places, on_error="return")
        for worker, answer in answers.items():
            if answer is not None:
                fault = f"cannot import wshard: {answer}" if isinstance(answer, BaseException) else answer
                raise IngestError(f"{worker}: {fault}")

    def _submit(self, function: Callable[[Sequence[Item]], Result], batch: Sequence[Item]) -> Any:
        check_sendable(function, batch)
        with _scheduler_errors(self._client):
            return self._client.submit(_work, __version__, self._places, function, batch, pure=False)

    def _take(
        self,
        function: Callable[[Sequence[Item]], Result],
        pending: deque[tuple[Sequence[Item], Any]],
        on_loss: Callable[[Item], Result] | None,
    ) -> Iterator[Result]:
        batch, future = pending.popleft()
        try:
            yield self._wait_for(future)
        except self._killed:
            for _, other in pending:  # so that nothing else is blamed when a worker ends
                self._wait_until_done(other)
            yield from self._isolate(function, batch, on_loss)

    def _isolate(
        self,
        function: Callable[[Sequence[Item]], Result],
        batch: Sequence[Item],
        on_loss: Callable[[Item], Result] | None,
    ) -> Iterator[Result]:
        try:
            yield self._wait_for(self._submit(function, batch))
        except self._killed as error:
            if len(batch) == 1:
                if on_loss is None:
                    raise IngestError(f"workers end with {shown(batch[0])}; committed work is safe") from error
                yield on_loss(batch[0])
                return
            size = -(-len(batch) // _PARTS)
            for start in range(0, len(batch), size):
                yield from self._isolate(function, batch[start : start + size], on_loss)

    def _wait_for(self, future: Any) -> Any:
        self._wait_until_done(future)
        with _scheduler_errors(self._client):
            return future.result()

    def _wait_until_done(self, future: Any) -> None:
        seen, said = time.monotonic(), False
        while not future.done():
            with _scheduler_errors(self._client):
                try:
                    future.exception(timeout=_POLL)
                except TimeoutError:
                    if self._ask():
                        seen = time.monotonic()
                    elif not said:
                        said = True
                        _LOG.warning("%s: no worker; waiting for one up to %.0f s", _name(self._client), _WORKERLESS)
            if time.monotonic() - seen > _WORKERLESS:
                raise IngestError(
                    f"{_name(self._client)}: no worker for {_WORKERLESS:.0f} s; committed work is safe: start workers "
                    "and run the command again"
                )

    def _ask(self) -> dict[str, int]:
        """Return the number of threads of each worker."""
        with _scheduler_errors(self._client):
            threads: dict[str, int] = self._client.nthreads()
        return threads


def _name(client: Any) -> str:
    return SCHEME + str(client.scheduler.addr).rpartition("://")[2]


@contextmanager
def _scheduler_errors(client: Any) -> Iterator[None]:
    """Report a lost scheduler in terms of what to do next."""
    try:
        yield
    except TimeoutError:
        raise
    except (CancelledError, OSError, RuntimeError) as error:
        if isinstance(error, OSError | RuntimeError) and client.status == "running":
            raise
        raise IngestError(
            f"{_name(client)}: the scheduler does not answer any more; committed work is safe: run the command again "
            "when it does"
        ) from error


def _work(
    version: str, places: tuple[str, ...], function: Callable[[Sequence[Item]], Result], batch: Sequence[Item]
) -> Result:
    """Run a batch on a worker, which may have joined after the others were checked."""
    fault = _find_fault(version, places)
    if fault is not None:
        raise IngestError(f"a worker that joined later: {fault}")
    return function(batch)


_checked: set[tuple[str, tuple[str, ...]]] = set()  # what this worker has been found fit for


def _find_fault(version: str, places: tuple[str, ...]) -> str | None:
    """Say what is wrong with this worker, None if nothing is."""
    if (version, places) in _checked:
        return None
    blas_threads().limit(limits=1)
    if version != __version__:
        return f"expected wshard {version} as here, found {__version__}: install the same version on every worker"
    unseen = next((one for one in places if not _is_there(one)), None)
    if unseen is not None:
        return f"expected {unseen} to be there as it is here: mount it on every worker, at the same path"
    _checked.add((version, places))
    return None


def _is_there(uri: str) -> bool:
    place = place_of(uri)
    return place.is_dir() or place.is_file()


def connect(address: str, failure: type[Exception], seconds: float = _CONNECT) -> Any:
    """Return a client of the cluster at dask://HOST:PORT; raises `failure` without one in time, MissingExtraError."""
    distributed = import_library("distributed", "dask")
    host = address.removeprefix(SCHEME).rstrip("/")
    try:
        with Waiting(address).announce(["no answer yet of its scheduler"]):
            return distributed.Client(f"tcp://{host}", timeout=seconds, set_as_default=False, name="wshard")
    except (OSError, ValueError) as error:
        raise failure(f"{address}: expected the scheduler of a Dask cluster: {error}") from error


@contextmanager
def dask_workers(address: str, places: Iterable[str]) -> Iterator[DaskWorkers]:
    """Use the workers of a cluster, once all have been checked; places: what they must see.

    address: dask://HOST:PORT of its scheduler. Raises IngestError, MissingExtraError.
    """
    client = connect(address, IngestError)
    try:
        found = DaskWorkers(client, [one for one in places if _is_there(one)])
        if not client.nthreads():
            raise IngestError(
                f"{address}: expected workers, found none: "
                f"start them with `dask worker tcp://{address.removeprefix(SCHEME)}`"
            )
        found.check_each()
        yield found
    finally:
        client.close(timeout=_POLL)
