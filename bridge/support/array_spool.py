"""Arrays that wait in temporary files until they are needed, once."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Arrays = Sequence[NDArray[Any]]


class ArraySpool:
    """Groups of arrays by names, in the order in which they were added; a context manager.

    All are dropped where they would take more room than most_bytes, or the disk has none: nothing depends on them.
    """

    def __init__(self, most_bytes: int = 0, folder: Path | None = None) -> None:
        """folder: for the files, None for that of the system."""
        self._left, self._folder = most_bytes, folder
        self._files: dict[str, IO[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.drop()

    @property
    def has_room(self) -> bool:
        """Whether it takes anything more."""
        return self._left > 0

    def add(self, name: str, groups: Iterable[Arrays]) -> None:
        """Add groups, if there is room."""
        for array in chain.from_iterable(groups):
            self._left -= array.nbytes
            if self._left < 0:
                self.drop()
                return
            try:
                if name not in self._files:
                    if self._folder is not None:
                        self._folder.mkdir(parents=True, exist_ok=True)
                    self._files[name] = TemporaryFile(dir=self._folder)  # noqa: SIM115  (until it is taken)
                np.save(self._files[name], array, allow_pickle=False)
                self._files[name].flush()
            except OSError:
                self.drop()

    def take(self, name: str, count: int) -> Iterator[Arrays]:
        """Yield the groups of that many arrays of a name, and forget them."""
        file = self._files.pop(name, None)
        if file is None:
            return
        with file:
            end = file.seek(0, 2)
            file.seek(0)
            while file.tell() < end:
                yield [np.load(file, allow_pickle=False) for _ in range(count)]

    def drop(self) -> None:
        """Forget all, and take no more."""
        self._left = -1
        while self._files:
            with suppress(OSError):  # closing writes what is buffered, for which there was no room before
                self._files.popitem()[1].close()
