"""The shards of one dataset as one sequence of records, by number and key."""

from __future__ import annotations

import bisect
from collections import OrderedDict
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Self

from wshard.arguments import integer
from wshard.errors import EntryNotFoundError, ManifestError
from wshard.messages import shown
from wshard.shardpack.layout import PARTIAL
from wshard.shardpack.reader import ShardPackReader
from wshard.shardpack.shards import expand_shards

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wshard.container.layout import Buffer
    from wshard.shardpack.record import ShardPackRecord

_OPEN: Final = 64  # files at a time


class ShardPackSet:
    """Records of a brace range of files, in the order of the files; a single file is a set of one.

    Opening reads the footers and indexes of all files. Raises ManifestError if the files do not form one dataset,
    according to their shard_count and shard_index; FormatError, OSError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.where = str(path)
        self.paths: list[Path] = list(expand_shards(path))
        self._open: OrderedDict[int, ShardPackReader] = OrderedDict()
        counts = [self._check(number) for number in range(len(self.paths))]
        self._ends = list(accumulate(counts))

    def _check(self, number: int) -> int:
        """Return the number of records of a file."""
        pack = self.reader(number)
        own = pack.metadata.get("shardpack")
        stated = (own.get("shard_index"), own.get("shard_count")) if isinstance(own, dict) else (None, None)
        if stated not in ((None, None), (number, len(self.paths))):
            raise ManifestError(
                f"{pack.where}: expected shard {number} of {len(self.paths)}, as {self.where} names them, found shard "
                f"{shown(stated[0])} of {shown(stated[1])}: files are missing, or of two datasets"
            )
        return len(pack)

    def reader(self, number: int) -> ShardPackReader:
        """Return the reader of a file of the set."""
        if number in self._open:
            self._open.move_to_end(number)
        else:
            self._open[number] = self._open_file(number)
            if len(self._open) > _OPEN:
                self._open.popitem(last=False)
        return self._open[number]

    def _open_file(self, number: int) -> ShardPackReader:
        path = self.paths[number]
        try:
            return ShardPackReader(path)
        except FileNotFoundError:
            if path.suffix != PARTIAL:
                raise
        self.paths[number] = path.with_suffix("")  # it was given its name meanwhile
        return ShardPackReader(self.paths[number])

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, which: int | str) -> ShardPackRecord:
        """Return a record by its number in the set, or by key; raises EntryNotFoundError."""
        pack, own = self._place(which)
        return pack[own]

    def read(self, which: int | str) -> Mapping[str, Buffer]:
        """Return the decoded bytes of all files of a record by name, as ShardPackReader.read()."""
        pack, own = self._place(which)
        return pack.read(own)

    def _place(self, which: int | str) -> tuple[ShardPackReader, int | str]:
        """Return the reader of a record, and its number or key there."""
        if isinstance(which, str):
            for number in range(len(self.paths)):
                if which in self.reader(number):
                    return self.reader(number), which
            raise EntryNotFoundError(f"{self.where}: no record of key {shown(which)} among {len(self)}")
        ordinal = integer(which)
        if ordinal is None or not -len(self) <= ordinal < len(self):
            raise EntryNotFoundError(f"{self.where}: expected a record from 0 to {len(self) - 1}, found {shown(which)}")
        ordinal %= len(self)
        number = bisect.bisect_right(self._ends, ordinal)
        return self.reader(number), ordinal - (self._ends[number - 1] if number else 0)

    def keys(self) -> Iterator[str]:
        """Yield all keys in order."""
        for number in range(len(self.paths)):
            yield from self.reader(number).keys()

    def __iter__(self) -> Iterator[ShardPackRecord]:
        for number in range(len(self.paths)):
            yield from self.reader(number)

    def close(self) -> None:
        """Close all files; records returned earlier stay valid."""
        for pack in self._open.values():
            pack.close()
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
