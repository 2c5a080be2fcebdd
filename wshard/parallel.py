"""Work on several blocks at once, in threads: codecs and checksums let go of the interpreter while they run.

Knows: how much may be in flight. Does not know: blocks, files.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_THREADS: Final = 8
_IN_FLIGHT: Final = 1 << 26  # bytes of results that may wait, unless a single one is larger
_WORTH_THREADS: Final = 1 << 20  # bytes of work below which starting threads costs more than it saves


def in_order(
    work: Callable[[Item], Result], items: Sequence[Item], *, effort: Sequence[int], memory: Sequence[int]
) -> Iterator[Result]:
    """Yield work(item) for each item, in order, computed ahead in as many threads as there are cores.

    effort: bytes that each item has to go through. memory: bytes that each result takes; those in flight take no more
    than the largest of them alone, or 64 MiB. What work raises is raised here, for the first item that does.
    """
    threads = min(_cores(), len(items), _MAX_THREADS)
    if threads < 2 or sum(effort) - max(effort) < _WORTH_THREADS:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (costs every start of the command otherwise)

    limit, taken = max(_IN_FLIGHT, *memory), 0
    waiting: deque[tuple[Future[Result], int]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for item, size in zip(items, memory, strict=True):
            while waiting and taken + size > limit:
                yield waiting[0][0].result()
                taken -= waiting.popleft()[1]
            waiting.append((pool.submit(work, item), size))
            taken += size
        while waiting:
            yield waiting.popleft()[0].result()
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
