"""Read a ShardPack: records by number or key, each with one range read, and all of them in order."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final, Self

from wshard.core.arguments import integer
from wshard.core.container.layout import checksum
from wshard.core.files.byte_source import ClosedSource, OfOneProcess, PathSource, open_source
from wshard.core.messages import shown
from wshard.errors import EntryNotFoundError, FormatError
from wshard.training.shardpack.index import PackIndex
from wshard.training.shardpack.layout import END_MARKER, FOOTER_SIZE, PackFooter, RecordHeader
from wshard.training.shardpack.record import RecordFiles, ShardPackRecord, locate_files, unpack_key, unpack_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wshard.core.container.layout import Buffer
    from wshard.core.files.byte_source import Source
    from wshard.core.files.schemes import Location
    from wshard.training.shardpack.record import LocatedFiles

_KEY_READ_SIZE: Final = 512  # bytes of a header and most keys, in one range read
_MAX_CACHED_SIZE: Final = 1 << 20  # bytes of a record whose verified headers are cached; larger records gain little
_MAX_CACHED_FILES: Final = 1 << 18  # files of all cached records, about 80 MB


class ShardPackReader(OfOneProcess):
    """One file of records, opened by its footer and index in two range reads.

    `pack[3]` and `pack["key"]` return records. `len`, `in` and iteration are those of a sequence of records; a key is
    looked up in the key table, or without one by reading all keys once. Use it in a `with`, or call close(). Raises
    FormatError for an invalid file, OSError.
    """

    def __init__(self, source: Location | Buffer) -> None:
        self._source: Source = open_source(source)
        self.where = self._source.where
        size = self._source.size
        tail = self._source.read(max(size - FOOTER_SIZE, 0), size)
        self.footer = PackFooter.unpack(tail, size, self.where)
        start = self.footer.index_offset - len(END_MARKER)
        data = self._source.read(start, size - FOOTER_SIZE)
        self._index = PackIndex.unpack(data, self.footer, self.where)
        self._records_end = start
        self._ordinals: dict[str, int] | None = None
        self._verified: dict[int | str, LocatedFiles] = {}
        self._pread: Any = getattr(self._source, "pread", None)
        self._cache_room = _MAX_CACHED_FILES

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The JSON object of the shard; the writer's own members are in "shardpack", the user's in "user"."""
        return self._index.metadata

    @property
    def index(self) -> PackIndex:
        """Offsets, key table and metadata, as stored."""
        return self._index

    def __len__(self) -> int:
        return self.footer.record_count

    def span(self, number: int) -> tuple[int, int]:
        """Return the bytes [start, stop) of a record in the file; raises EntryNotFoundError."""
        count = self.footer.record_count
        ordinal = integer(number)
        if ordinal is None or not -count <= ordinal < count:
            raise EntryNotFoundError(f"{self.where}: expected a record from 0 to {count - 1}, found {shown(number)}")
        ordinal %= count
        offset = self._index.offsets.item  # faster than indexing, which returns a numpy scalar
        return offset(ordinal), offset(ordinal + 1) if ordinal + 1 < count else self._records_end

    def read_block(self, number: int) -> memoryview:
        """Return the bytes of a record as stored, unverified; one range read."""
        return self._source.read(*self.span(number))

    def record(self, number: int) -> ShardPackRecord:
        """Return a record by its number, -1 is the last; raises EntryNotFoundError, FormatError."""
        start, stop = self.span(number)
        return unpack_record(
            self._source.read(start, stop), f"{self.where}: record {number % self.footer.record_count}"
        )

    def read(self, which: int | str) -> Mapping[str, Buffer]:
        """Return the decoded bytes of all files of a record by name, by its number or key; raises as record().

        The headers of a record are verified when it is first read, the bytes of its files at each read.
        """
        try:
            start, size, expected, name, locations = self._verified[which]
        except KeyError:
            return self._read_verifying_headers(which)
        data = self._pread(size, start)
        if checksum(data) == expected:
            return RecordFiles(data, locations, self.where) if locations else {name: data}
        return self._read_verifying_headers(which)

    def _read_verifying_headers(self, which: int | str) -> Mapping[str, Buffer]:
        """Read a record, verifying headers and files, and cache the locations of its files."""
        number = self.find(which) if isinstance(which, str) else which
        start, stop = self.span(number)
        source = self._source
        cacheable = source if isinstance(source, PathSource) and stop - start <= _MAX_CACHED_SIZE else None
        block = cacheable.fetch(start, stop) if cacheable else source.read(start, stop)
        record = unpack_record(block, f"{self.where}: record {number % len(self)}")
        files = record.read()
        if cacheable and 0 < len(record) <= self._cache_room:
            self._cache_room -= len(record)
            self._verified[which] = locate_files(record, block, start)
        return files

    def key(self, number: int) -> str:
        """Return the key of a record, verified, without reading its entries."""
        start, stop = self.span(number)
        where = f"{self.where}: record {number % len(self)}"
        block = self._source.read(start, min(stop, start + _KEY_READ_SIZE))
        header, _ = RecordHeader.peek(block, where, stop - start)
        if header.entries_start > len(block):
            block = self._source.read(start, start + header.entries_start)
        return unpack_key(block, RecordHeader.unpack(block, where, stop - start), where)

    def keys(self) -> Iterator[str]:
        """Yield the keys of all records in order; reads only their headers and keys."""
        return (self.key(number) for number in range(len(self)))

    def find(self, key: str) -> int:
        """Return the number of the record with this key; raises EntryNotFoundError."""
        for number in self._index.candidates(key):
            if self.key(number) == key:
                return number
        if self._index.table is None:
            if self._ordinals is None:
                numbered = reversed(list(enumerate(self.keys())))  # the first of equal keys wins
                self._ordinals = {name: number for number, name in numbered}
            if key in self._ordinals:
                return self._ordinals[key]
        raise EntryNotFoundError(f"{self.where}: no record of key {shown(key)} among {len(self)}")

    def records(self) -> Iterator[ShardPackRecord]:
        """Yield all records in order, as iteration does."""
        return iter(self)

    def get_index(self) -> list[int]:
        """Return the offset of each record in the file."""
        return [int(offset) for offset in self._index.offsets]

    def read_record_at_offset(self, offset: int) -> ShardPackRecord:
        """Return the record that begins at an offset of get_index(); raises EntryNotFoundError, FormatError."""
        start, offsets = integer(offset), self._index.offsets
        number = bisect_left(offsets, start) if start is not None and 0 <= start < self._records_end else len(offsets)
        if number == len(offsets) or offsets[number] != start:
            raise EntryNotFoundError(
                f"{self.where}: expected the offset of a record, as get_index() lists them, found {shown(offset)}"
            )
        return self.record(number)

    def __getitem__(self, which: int | str) -> ShardPackRecord:
        """Return a record by number or key."""
        return self.record(self.find(which) if isinstance(which, str) else which)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        try:
            self.find(key)
        except EntryNotFoundError:
            return False
        return True

    def intact_records(self, on_error: Callable[[int, FormatError], None]) -> Iterator[ShardPackRecord]:
        """Yield the records with correct checksums, in order; on_error(number, error) is called for the others."""
        for number in range(len(self)):
            try:
                record = self.record(number)
                for entry in record:
                    entry.verify()
            except FormatError as error:
                on_error(number, error)
            else:
                yield record

    def __iter__(self) -> Iterator[ShardPackRecord]:
        return (self.record(number) for number in range(len(self)))

    def close(self) -> None:
        """Close the file; records returned earlier stay valid."""
        self._verified.clear()
        self._source = ClosedSource(self._source.size, self.where)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
