"""Verify every byte of ShardPack files, and properties that need a full check: unique keys, correct key tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wshard.core.container.layout import name_hash
from wshard.errors import FormatError
from wshard.training.shardpack.layout import MetadataEncoding
from wshard.training.shardpack.reader import ShardPackReader

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from wshard.training.shardpack.record import ShardPackRecord

HEADER = "header"


@dataclass(frozen=True)
class PackCheck:
    """Number of records and entries of a file, and its problems by "header", "record 3" or "record 3: 'a.jpg'"."""

    path: str
    records: int = 0
    entries: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems


def verify_shardpack(path: str | os.PathLike[str]) -> PackCheck:
    """Read and decode everything in one file; problems are returned, not raised."""
    problems: dict[str, str] = {}
    records = entries = 0
    where = str(path)
    try:
        with ShardPackReader(path) as pack:
            records, keys = len(pack), dict[str, int]()
            for number in range(records):
                try:
                    record = pack.record(number)
                except FormatError as error:
                    problems[f"record {number}"] = str(error)
                    continue
                entries += len(record)
                problems |= {f"record {number}: {name}": text for name, text in check_entries(record).items()}
                first = keys.setdefault(record.key, number)
                if first != number:
                    problems[f"record {number}"] = f"{record.where}: expected a new key, found that of record {first}"
            problems |= _check_key_table(pack, keys)
    except (FormatError, OSError) as error:
        problems[HEADER] = str(error)
    return PackCheck(where, records, entries, problems)


def check_entries(record: ShardPackRecord) -> dict[str, str]:
    """Return the problems of the metadata ("metadata") and the entries (repr of the name) of a record."""
    problems = {}
    for entry in record:
        try:
            entry.read()
        except FormatError as error:
            problems[repr(entry.name)] = str(error)
    if record.metadata.encoding is MetadataEncoding.JSON:
        try:
            record.metadata.json()
        except FormatError as error:
            problems["metadata"] = f"{record.where}: {error}"
    return problems


def _check_key_table(pack: ShardPackReader, keys: Mapping[str, int]) -> dict[str, str]:
    """Compare the hashes of the key table with the keys that were read."""
    table = pack.index.table
    if table is None:
        return {}
    stored = dict(zip(table["ordinal"].tolist(), table["hash"].tolist(), strict=True))
    wrong = [number for key, number in keys.items() if stored[number] != name_hash(key)]
    if not wrong:
        return {}
    return {HEADER: f"{pack.where}: key table: record {wrong[0]} is named with the hash of another key"}
