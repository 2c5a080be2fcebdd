"""Blocks of objects in memory and on disk, so that nothing is fetched twice: by URL, version and position."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Final

from wshard.core.files.disk_cache import Object, read_block, write_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BLOCK: Final = 1 << 15
"""Bytes of a block; a lane costs at most one more on either side."""

_FRONT: Final = 2  # blocks that are fetched together: the header, and the index and metadata behind it
_MOST_IN_MEMORY: Final = 2048  # blocks: 64 MiB
_AT_ONCE: Final = 16  # ranges fetched in parallel
_LARGEST: Final = 1024  # blocks of one request: 32 MiB


class _Recent:
    """The blocks that were used last, shared by the threads of a process: a tenth of the time of one on disk."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[Object, int], bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[Object, int]) -> bytes | None:
        with self._lock:
            block = self._blocks.get(key)
            if block is not None:
                self._blocks.move_to_end(key)
            return block

    def put(self, key: tuple[Object, int], block: bytes) -> None:
        with self._lock:
            self._blocks[key] = block
            while len(self._blocks) > _MOST_IN_MEMORY:
                self._blocks.popitem(last=False)


_RECENT: Final = _Recent()


def read_blocks(of: Object, ranges: Sequence[tuple[int, int]], fetch: Callable[[int, int], bytes]) -> list[bytes]:
    """Return ranges of an object, cut at its end; `fetch(start, stop)` is called for what is not in the cache."""
    size = of[2]
    clipped = [(max(start, 0), min(stop, size)) for start, stop in ranges]
    wanted = {number for start, stop in clipped if start < stop for number in range(start // BLOCK, -(-stop // BLOCK))}
    if 0 in wanted:
        wanted.update(range(min(_FRONT, -(-size // BLOCK))))
    blocks = {number: block for number in wanted if (block := _find(of, number)) is not None}
    runs = _runs(sorted(wanted - blocks.keys()))
    spans = [(first * BLOCK, min(last * BLOCK, size)) for first, last in runs]
    for (first, _), data in zip(runs, _fetch_all(spans, fetch), strict=True):
        fetched = {first + offset // BLOCK: data[offset : offset + BLOCK] for offset in range(0, len(data), BLOCK)}
        for number, block in fetched.items():
            _RECENT.put((of, number), block)
        write_blocks(of, fetched)
        blocks.update(fetched)
    return [_cut(blocks, start, stop) for start, stop in clipped]


def _find(of: Object, number: int) -> bytes | None:
    block = _RECENT.get((of, number))
    if block is None and (block := read_block(of, number)) is not None:
        _RECENT.put((of, number), block)
    return block


def _fetch_all(spans: Sequence[tuple[int, int]], fetch: Callable[[int, int], bytes]) -> list[bytes]:
    if len(spans) < 2:
        return [fetch(*span) for span in spans]
    with ThreadPoolExecutor(min(_AT_ONCE, len(spans))) as pool:
        return list(pool.map(lambda span: fetch(*span), spans))


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the runs [first, last) of consecutive numbers, none longer than one request may be."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number and number - runs[-1][0] < _LARGEST:
            runs[-1] = runs[-1][0], number + 1
        else:
            runs.append((number, number + 1))
    return runs


def _cut(blocks: dict[int, bytes], start: int, stop: int) -> bytes:
    if start >= stop:
        return b""
    first, last = start // BLOCK, (stop - 1) // BLOCK
    if first == last:
        return blocks[first][start - first * BLOCK : stop - first * BLOCK]
    return b"".join(blocks[number] for number in range(first, last + 1))[start - first * BLOCK : stop - first * BLOCK]
