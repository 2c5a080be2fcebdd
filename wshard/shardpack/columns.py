"""Several ShardPacks as columns of one dataset: records of one key are joined into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.errors import EntryNotFoundError, FormatError
from wshard.shardpack.record import ShardPackRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard.shardpack.reader import ShardPackReader


class ColumnPacks:
    """Records of the first pack, each with the entries of the same key in the others; the caller closes the packs.

    If all packs have the same order of keys, a record is one range read per pack; otherwise keys are looked up. Raises
    EntryNotFoundError for a key that a column lacks, FormatError for an entry in two columns.
    """

    def __init__(self, packs: Sequence[ShardPackReader]) -> None:
        if not packs:
            raise FormatError("expected one ShardPack or more to join, found none")
        self._packs = list(packs)

    def __len__(self) -> int:
        return len(self._packs[0])

    def __getitem__(self, which: int | str) -> ShardPackRecord:
        """Return the joined record by the number or key that it has in the first pack."""
        first = self._packs[0]
        number = first.find(which) if isinstance(which, str) else which
        parts = [first.record(number)]
        key = parts[0].key
        parts += [_find(pack, key, number % len(first)) for pack in self._packs[1:]]
        entries = [entry for part in parts for entry in part]
        names = set[str]()
        for entry in entries:
            if entry.name in names:
                raise FormatError(f"{entry.where}: entry {entry.name!r}: expected it in one column, found it in two")
            names.add(entry.name)
        return ShardPackRecord(key, parts[0].metadata, tuple(entries), parts[0].where)

    def __iter__(self) -> Iterator[ShardPackRecord]:
        return (self[number] for number in range(len(self)))


def _find(pack: ShardPackReader, key: str, number: int) -> ShardPackRecord:
    """Return the record of a key; `number` is tried first. Raises EntryNotFoundError."""
    if number < len(pack) and (record := pack.record(number)).key == key:
        return record
    try:
        return pack[key]
    except EntryNotFoundError:
        raise EntryNotFoundError(f"{pack.where}: expected a record of key {key!r} to join, found none") from None
