"""Arrays that grow at their ends: one file each, mapped when read, and a table that says how much of them counts.

Rows are written and flushed before the table names them, so a process that is killed leaves the rows of before; what
lies behind these is overwritten. Only `replace` writes anew, to other files, as readers may have mapped the former.
"""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.index.sealed_json import seal, unseal
from bridge.support.file_lock import locked
from wshard.core.container.atomic_write import publish
from wshard.core.container.layout import checksum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    Part = Sequence[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class StoredArrays:
    """Arrays of rows, mapped; state: what they are of, which grows; token: of all that one `replace` began."""

    name: str
    state: int
    token: str = ""
    arrays: Part = ()
    sums: Sequence[int] = field(default=())


class ArrayFiles:
    """Files NAME.json, NAME.lock and NAME-0.bin, NAME-1.bin, ... of one folder; nothing depends on them.

    Writing raises OSError. What is missing or damaged, or of another name, reads as empty.
    """

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder, self._table, self._stem = folder, folder / f"{stem}.json", stem

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let other writers wait; OSError."""
        with locked(self._folder / f"{self._stem}.lock"):
            yield

    def read(self, known: StoredArrays) -> StoredArrays:
        """Return the arrays of a name; known: those read before, of which only what was added is verified."""
        try:
            text = unseal(self._table.read_bytes())
            if (text["token"], text["state"]) == (known.token, known.state):
                return known
            if text["name"] != known.name:
                return StoredArrays(known.name, 0)
            arrays = [self._map(number, *kind) for number, kind in enumerate(text["arrays"])]
            before = known if text["token"] == known.token else None
            for number, (array, expected) in enumerate(zip(arrays, text["sums"], strict=True)):
                rows, crc = (0, 0) if before is None else (len(before.arrays[number]), before.sums[number])
                if checksum(_bytes(array[rows:]), crc) != expected:
                    return StoredArrays(known.name, 0)
            return StoredArrays(known.name, text["state"], text["token"], arrays, text["sums"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return StoredArrays(known.name, 0)

    def append(self, stored: StoredArrays, parts: Iterable[Part], state: int) -> StoredArrays:
        """Write parts, each as many arrays, at the ends of the stored ones, as read while they are locked."""
        with ExitStack() as stack:
            files = [stack.enter_context(self._path(number).open("r+b")) for number in range(len(stored.arrays))]
            for file, array in zip(files, stored.arrays, strict=True):
                file.truncate(array.nbytes)
                file.seek(array.nbytes)
            kinds, sums = _write(files, parts, [_kind(array) for array in stored.arrays], stored.sums)
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        return self._publish(StoredArrays(stored.name, state, stored.token, (), sums), kinds)

    def replace(self, name: str, parts: Iterable[Part], state: int) -> StoredArrays:
        """Write parts to new files; without any, all that is stored is empty."""
        self._folder.mkdir(parents=True, exist_ok=True)
        ahead = iter(parts)
        first = next(ahead, None)
        if first is None:
            return StoredArrays(name, state)
        with ExitStack() as stack:
            files = [stack.enter_context(publish(self._path(number))) for number in range(len(first))]
            kinds, sums = _write(
                files, [first], [(_kind(array)[0], 0, array.shape[1]) for array in first], [0] * len(first)
            )
            kinds, sums = _write(files, ahead, kinds, sums)
        (self._folder / f"{self._stem}.bin").unlink(missing_ok=True)  # of older software
        return self._publish(StoredArrays(name, state, secrets.token_hex(8), (), sums), kinds)

    def _publish(self, made: StoredArrays, kinds: Sequence[_Kind]) -> StoredArrays:
        about = {"name": made.name, "state": made.state, "token": made.token, "arrays": kinds, "sums": made.sums}
        with publish(self._table) as file:
            file.write(seal(about))
        arrays = [self._map(number, *kind) for number, kind in enumerate(kinds)]
        return StoredArrays(made.name, made.state, made.token, arrays, made.sums)

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._stem}-{number}.bin"

    def _map(self, number: int, kind: str, rows: int, width: int) -> NDArray[Any]:
        """Return an array without what each slice of a mapped one would cost."""
        if not rows:
            return np.zeros((0, width), kind)
        return np.asarray(np.memmap(self._path(number), kind, "r", shape=(rows, width)))


_Kind = tuple[str, int, int]  # of numbers, rows, and their width


def _kind(array: NDArray[Any]) -> _Kind:
    return array.dtype.str, len(array), array.shape[1]


def _bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _write(
    files: Sequence[IO[bytes]], parts: Iterable[Part], kinds: Sequence[_Kind], sums: Sequence[int]
) -> tuple[list[_Kind], list[int]]:
    """Write parts at the ends of files; returns the kinds of what is in them, and its checksums."""
    kinds, sums = [*kinds], [*sums]
    for part in parts:
        for number, (file, array, (kind, rows, width)) in enumerate(zip(files, part, kinds, strict=True)):
            data = _bytes(array.astype(kind, copy=False))
            file.write(data)
            sums[number] = checksum(data, sums[number])
            kinds[number] = kind, rows + len(array), width
    return kinds, sums
