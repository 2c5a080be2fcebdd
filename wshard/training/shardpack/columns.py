"""Several ShardPacks as columns of one dataset: records of one key are joined into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from wshard.errors import EntryNotFoundError, FormatError
from wshard.training.shardpack.record import ShardPackRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard.training.shardpack.pack_set import ShardPackSet
    from wshard.training.shardpack.reader import ShardPackReader
    from wshard.training.shardpack.record import ShardPackEntry

    Pack: TypeAlias = ShardPackReader | ShardPackSet


class ColumnPacks:
    """Records of the first pack or set, each with the entries of the same key in the others; the caller closes them.

    A later pack whose first record has an entry of an earlier one is an update: its entries replace those of the same
    names, and it may have only some of the keys. Any other pack is a column and must have all keys. If all packs have
    the same order of keys, a record is one range read per pack; otherwise keys are looked up. Raises EntryNotFoundError
    for a key that a column lacks, and for a key of an update that the first pack lacks.
    """

    def __init__(self, packs: Sequence[Pack]) -> None:
        if not packs:
            raise FormatError("expected one ShardPack or more to join, found none")
        self._first = packs[0]
        self._others: list[tuple[Pack, bool]] = []
        for pack in packs[1:]:
            self._others.append((pack, self._is_update(pack)))

    def _is_update(self, pack: Pack) -> bool:
        """Return True for a pack that replaces entries of the earlier ones, after a check of its keys."""
        if not len(pack) or (first := pack[0]).key not in self._first:
            return False
        if not set(self[first.key].names()) & set(first.names()):
            return False
        unknown = next((key for key in pack.keys() if key not in self._first), None)  # noqa: SIM118  (no mapping)
        if unknown is not None:
            raise EntryNotFoundError(f"{pack.where}: no record of key {unknown!r} to update in {self._first.where}")
        return True

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, which: int | str) -> ShardPackRecord:
        """Return the joined record by the number or key that it has in the first pack."""
        record = self._first[which]
        entries = {entry.name: entry for entry in record}
        for pack, is_update in self._others:
            for entry in _find(pack, record.key, which, is_update=is_update):
                if entry.name in entries and not is_update:
                    raise FormatError(
                        f"{entry.where}: entry {entry.name!r}: expected it in one column, found it in two"
                    )
                entries[entry.name] = entry
        return ShardPackRecord(record.key, record.metadata, tuple(entries.values()), record.where)

    def __iter__(self) -> Iterator[ShardPackRecord]:
        return (self[number] for number in range(len(self)))


def _find(pack: Pack, key: str, which: int | str, *, is_update: bool) -> tuple[ShardPackEntry, ...]:
    """Return the entries of a key, () where an update lacks it; a number is tried first. Raises EntryNotFoundError."""
    if not isinstance(which, str) and -len(pack) <= which < len(pack) and (record := pack[which]).key == key:
        return record.entries
    try:
        return pack[key].entries
    except EntryNotFoundError:
        if is_update:
            return ()
        raise EntryNotFoundError(f"{pack.where}: expected a record of key {key!r} to join, found none") from None
