"""Read the shards of one dataset as one sequence of records, by number and key."""

from __future__ import annotations

import bisect
from collections import OrderedDict
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Self

from wshard.core.arguments import integer
from wshard.core.messages import shown
from wshard.errors import EntryNotFoundError, ManifestError
from wshard.training.shardpack.layout import PARTIAL
from wshard.training.shardpack.reader import ShardPackReader
from wshard.training.shardpack.shards import expand_shards

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wshard.core.container.layout import Buffer
    from wshard.training.shardpack.record import ShardPackRecord

_MAX_OPEN: Final = 64  # files


class ShardPackSet:
    """Records of a brace range of files, in the order of the files; a single file is a set of one.

    Opening reads the footers and indexes of all files. Raises ManifestError if the files do not form one dataset,
    according to their shard_count and shard_index; FormatError, OSError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.where = str(path)
        self.paths: list[Path] = list(expand_shards(path))
        self._readers: OrderedDict[int, ShardPackReader] = OrderedDict()
        counts = [self._check_shard(number) for number in range(len(self.paths))]
        self._record_ends = list(accumulate(counts))

    def _check_shard(self, number: int) -> int:
        """Return the number of records of a file; raises ManifestError if it states another place in the set."""
        pack = self.reader(number)
        info = pack.metadata.get("shardpack")
        stated = (info.get("shard_index"), info.get("shard_count")) if isinstance(info, dict) else (None, None)
        if stated not in ((None, None), (number, len(self.paths))):
            raise ManifestError(
                f"{pack.where}: expected shard {number} of {len(self.paths)}, as {self.where} names them, found shard "
                f"{shown(stated[0])} of {shown(stated[1])}: files are missing, or of two datasets"
            )
        return len(pack)

    def reader(self, number: int) -> ShardPackReader:
        """Return the reader of a file of the set."""
        if number in self._readers:
            self._readers.move_to_end(number)
        else:
            self._readers[number] = self._open_file(number)
            if len(self._readers) > _MAX_OPEN:
                self._readers.popitem(last=False)
        return self._readers[number]

    def _open_file(self, number: int) -> ShardPackReader:
        path = self.paths[number]
        try:
            return ShardPackReader(path)
        except FileNotFoundError:
            if path.suffix != PARTIAL:
                raise
        self.paths[number] = path.with_suffix("")  # its writer has finished and renamed it
        return ShardPackReader(self.paths[number])

    def __len__(self) -> int:
        return self._record_ends[-1]

    def __getitem__(self, which: int | str) -> ShardPackRecord:
        """Return a record by its number in the set, or by key; raises EntryNotFoundError."""
        pack, local = self._locate(which)
        return pack[local]

    def read(self, which: int | str) -> Mapping[str, Buffer]:
        """Return the decoded bytes of all files of a record by name, as ShardPackReader.read()."""
        pack, local = self._locate(which)
        return pack.read(local)

    def _locate(self, which: int | str) -> tuple[ShardPackReader, int | str]:
        """Return the reader of a record, and its number or key in that file; raises EntryNotFoundError."""
        if isinstance(which, str):
            for number in range(len(self.paths)):
                if which in self.reader(number):
                    return self.reader(number), which
            raise EntryNotFoundError(f"{self.where}: no record of key {shown(which)} among {len(self)}")
        ordinal = integer(which)
        if ordinal is None or not -len(self) <= ordinal < len(self):
            raise EntryNotFoundError(f"{self.where}: expected a record from 0 to {len(self) - 1}, found {shown(which)}")
        ordinal %= len(self)
        number = bisect.bisect_right(self._record_ends, ordinal)
        return self.reader(number), ordinal - (self._record_ends[number - 1] if number else 0)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and any(key in self.reader(number) for number in range(len(self.paths)))

    def keys(self) -> Iterator[str]:
        """Yield all keys in order."""
        for number in range(len(self.paths)):
            yield from self.reader(number).keys()

    def __iter__(self) -> Iterator[ShardPackRecord]:
        for number in range(len(self.paths)):
            yield from self.reader(number)

    def close(self) -> None:
        """Close all files; records returned earlier stay valid."""
        for pack in self._readers.values():
            pack.close()
        self._readers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
