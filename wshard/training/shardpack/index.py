"""The index of a ShardPack: where records begin, the key table, and the metadata of the shard."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.container.layout import MAX_SECTION_SIZE, checksum, name_hash
from wshard.core.container.metadata import check_keys
from wshard.errors import ChecksumError, IndexCorruptError, LimitError, MetadataError
from wshard.training.shardpack.layout import (
    COUNT,
    END_MARKER,
    FOOTER_SIZE,
    MIN_RECORD_SIZE,
    OFFSET_SIZE,
    PackFooter,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

_OFFSET: Final = np.dtype("<u8")
_TABLE_ROW: Final = np.dtype([("hash", "<u8"), ("ordinal", "<u8")])


@dataclass(frozen=True)
class PackIndex:
    """Offsets uint64 [N], the rows (hash, ordinal) of the key table or None, and the shard's JSON object."""

    offsets: NDArray[np.uint64]
    table: NDArray[np.void] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def pack(self, end: int) -> bytes:
        """Return the end marker, the index and the footer that follow records of `end` bytes."""
        table = b"" if self.table is None else self.table.astype(_TABLE_ROW).tobytes()
        metadata = pack_metadata(self.metadata)
        count = len(self.offsets)
        body = b"".join((COUNT.pack(count), self.offsets.astype(_OFFSET).tobytes(), table, metadata))
        start = end + len(END_MARKER)
        total = start + len(body) + FOOTER_SIZE
        footer = PackFooter(start, count, len(table), len(metadata), total, checksum(body))
        return b"".join((END_MARKER, body, footer.pack()))

    @staticmethod
    def unpack(data: memoryview, footer: PackFooter, where: str) -> PackIndex:
        """Read and check the end marker and the index that a footer describes.

        Raises ChecksumError, IndexCorruptError, MetadataError.
        """
        marker, body = data[: len(END_MARKER)], data[len(END_MARKER) :]
        if marker != END_MARKER:
            raise IndexCorruptError(f"{where}: expected 8 zero bytes before the index at {footer.index_offset}")
        computed = checksum(body)
        if computed != footer.index_check:
            raise ChecksumError(f"{where}: index: stored 0x{footer.index_check:08x}, computed 0x{computed:08x}")
        (count,) = COUNT.unpack_from(body)
        if count != footer.record_count:
            raise IndexCorruptError(f"{where}: records: the index says {count}, the footer {footer.record_count}")
        table_start = COUNT.size + OFFSET_SIZE * count
        offsets = np.frombuffer(body, _OFFSET, count, COUNT.size)
        _check_offsets(offsets, footer.index_offset - len(END_MARKER), where)
        table = None
        if footer.key_table_size:
            table = np.frombuffer(body, _TABLE_ROW, count, table_start)
            _check_table(table, where)
        metadata = body[table_start + footer.key_table_size :]
        return PackIndex(offsets, table, unpack_metadata(bytes(metadata), f"{where}: shard metadata"))

    def candidates(self, key: str) -> list[int]:
        """Return the numbers of records with the hash of a key in the key table; [] without a table."""
        if self.table is None:
            return []
        hash_ = np.uint64(name_hash(key))
        first, last = (int(np.searchsorted(self.table["hash"], hash_, side)) for side in ("left", "right"))
        return [int(ordinal) for ordinal in self.table["ordinal"][first:last]]


def key_table(hashes: Iterable[int]) -> NDArray[np.void]:
    """Return the key table, sorted by hash, of records whose keys have these hashes."""
    hash_array = np.fromiter(hashes, np.uint64)
    order = np.argsort(hash_array, kind="stable")
    table = np.empty(len(hash_array), _TABLE_ROW)
    table["hash"], table["ordinal"] = hash_array[order], order
    return table


def _check_offsets(offsets: NDArray[np.uint64], end: int, where: str) -> None:
    """Raise IndexCorruptError unless records fill [0, end)."""
    if not len(offsets):
        if end:
            raise IndexCorruptError(f"{where}: no records, but {end} bytes before the index")
        return
    if offsets[0] != 0:
        raise IndexCorruptError(f"{where}: first record: expected at 0, found at {offsets[0]}")
    stops = np.append(offsets[1:], np.uint64(end))
    wrong = np.flatnonzero((stops <= offsets) | (stops - offsets < MIN_RECORD_SIZE))
    if len(wrong):
        number = int(wrong[0])
        raise IndexCorruptError(
            f"{where}: record {number}: expected at least {MIN_RECORD_SIZE} bytes, found it in "
            f"[{offsets[number]}, {stops[number]})"
        )


def _check_table(table: NDArray[np.void], where: str) -> None:
    """Raise IndexCorruptError unless the rows are sorted and name each record once."""
    hashes, ordinals = table["hash"], table["ordinal"]
    if not np.array_equal(np.sort(ordinals), np.arange(len(table), dtype=np.uint64)):
        raise IndexCorruptError(f"{where}: key table: expected each of {len(table)} records once")
    ascends = (hashes[1:] > hashes[:-1]) | ((hashes[1:] == hashes[:-1]) & (ordinals[1:] > ordinals[:-1]))
    if not ascends.all():
        row = int(np.flatnonzero(~ascends)[0]) + 1
        raise IndexCorruptError(f"{where}: key table: expected rows sorted by hash and record, found row {row} is not")


def pack_metadata(value: Mapping[str, Any]) -> bytes:
    """Return the shard's metadata as canonical JSON, b"" for none; raises MetadataError, LimitError."""
    if not value:
        return b""
    try:
        check_keys(dict(value))
        data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise MetadataError(f"shard metadata: expected JSON values: {error}") from error
    if len(data) > MAX_SECTION_SIZE:
        raise LimitError(f"shard metadata of {len(data)} bytes: expected at most {MAX_SECTION_SIZE}")
    return data


def unpack_metadata(data: bytes, where: str) -> dict[str, Any]:
    """Read the JSON object of a shard; raises MetadataError, also for duplicate names and NaN."""
    if not data:
        return {}
    try:
        value = json.loads(data.decode(), object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"{where}: expected strict UTF-8 JSON: {error}") from error
    if not isinstance(value, dict):
        raise MetadataError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate name in an object")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")
