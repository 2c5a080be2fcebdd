"""Apply a function to many things in threads, in order, with few results waiting."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def map_bounded(function: Callable[[_Given], _Made], items: Iterable[_Given], workers: int) -> Iterator[_Made]:
    """Yield the results in the order of the items; at most two per worker are under way or wait."""
    if workers == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting = deque[Future[_Made]]()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
