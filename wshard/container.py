"""Read any Shard container: header, index, blocks, codecs and checksums of one file. Input starts at `_buffer_of`.

Does not know: how files are written (writer.py); episodes, lanes, dtypes.
"""

from __future__ import annotations

import mmap
import os
import warnings
from typing import IO, TYPE_CHECKING, Self

import xxhash

from wshard.compress import decompress
from wshard.errors import (
    ChecksumError,
    CodecError,
    EntryNotFoundError,
    FormatError,
    FormatWarning,
)
from wshard.layout import (
    CODEC_LZ4,
    CODEC_ZSTD,
    ENTRY_KNOWN_FLAGS,
    ENTRY_LZ4,
    ENTRY_ZSTD,
    FLAG_HAS_CHECKSUMS,
    HEADER_SIZE,
    Header,
    IndexEntry,
    checksum,
    unpack_header,
    unpack_index,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.layout import Buffer

PathOrFile = str | os.PathLike[str] | IO[bytes]
_READ_WHOLE_BELOW = 1 << 20  # small files are read: a mapping would pin a file descriptor for as long as its views live


class ShardReader:
    """Random access to the blocks of one Shard file.

    source: a path (memory-mapped when larger than 1 MiB), bytes-like, or a binary file object (read whole).
    Opening reads and checks header and index only. Raises FormatError and its subclasses, FileNotFoundError, OSError.
    Blocks are checked against their CRC32C at the first full read. Of duplicate names look-up gives the last.
    """

    def __init__(self, source: PathOrFile | Buffer) -> None:
        self._buffer, self.where = _buffer_of(source)
        size = len(self._buffer)
        self.header: Header = unpack_header(self._buffer[:HEADER_SIZE], size, self.where)
        self.entries: list[IndexEntry] = unpack_index(self._buffer, self.header, self.where)
        self._numbers = {entry.name: number for number, entry in enumerate(self.entries)}
        self._verified: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Views already handed out stay valid; the mapping ends with the last of them."""
        self._buffer = memoryview(b"")
        self.entries = []
        self._numbers = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def names(self) -> list[str]:
        """Return the names of all blocks in index order."""
        return [entry.name for entry in self.entries]

    def entry(self, key: str | int) -> IndexEntry:
        """Return the index entry of a name or number; raises EntryNotFoundError (a KeyError)."""
        return self.entries[self._number(key)]

    def _number(self, key: str | int) -> int:
        if isinstance(key, str) and key in self._numbers:
            return self._numbers[key]
        if isinstance(key, int) and -len(self.entries) <= key < len(self.entries):
            return key % len(self.entries)
        raise EntryNotFoundError(f"{self.where}: no block {key!r}; it has {', '.join(self.names()[:20]) or 'none'}")

    def block(self, key: str | int, *, verify: bool = True) -> Buffer:
        """Return the decoded bytes of a block: a read-only view of the file where it is stored uncompressed.

        verify: compare the CRC32C, once per block and reader. Raises ChecksumError, CodecError, LimitError.
        """
        number = self._number(key)
        entry = self.entries[number]
        where = f"{self.where}: block {entry.name!r}"
        stored = self._buffer[entry.data_offset : entry.data_offset + entry.disk_size]
        data = self._decode(entry, stored, where)
        if verify and number not in self._verified:
            self._check(entry, data, stored, where)
            self._verified.add(number)
        return data

    def stored(self, key: str | int) -> tuple[memoryview, int]:
        """Return a block's bytes as they lie in the file, unchecked, and the codec flags that decode them (0 = raw)."""
        entry = self.entries[self._number(key)]
        codec = self._codec_flags(entry, f"{self.where}: block {entry.name!r}")
        return self._buffer[entry.data_offset : entry.data_offset + entry.disk_size], codec

    def read_entry(self, key: str | int) -> bytes:
        """Return a copy of the decoded, verified bytes of a block."""
        return bytes(self.block(key))

    def _decode(self, entry: IndexEntry, stored: memoryview, where: str) -> Buffer:
        codec = self._codec_flags(entry, where)
        if not codec:
            if entry.disk_size != entry.orig_size:
                raise CodecError(f"{where}: stored raw in {entry.disk_size} bytes, but orig_size is {entry.orig_size}")
            return stored
        try:
            return decompress(stored, entry.orig_size, codec, where)
        except CodecError:
            # Some writers leave the flag on blocks that they stored raw; only a matching checksum can prove that.
            if entry.disk_size == entry.orig_size and entry.checksum and checksum(stored) == entry.checksum:
                return stored
            raise

    def _codec_flags(self, entry: IndexEntry, where: str) -> int:
        flags = entry.flags
        codec = flags & (ENTRY_ZSTD | ENTRY_LZ4)
        if flags & ~ENTRY_KNOWN_FLAGS or codec == ENTRY_ZSTD | ENTRY_LZ4:
            raise CodecError(f"{where}: expected at most one known codec flag, found 0x{flags:04x}")
        if not entry.compressed or codec:
            return codec if entry.compressed else 0
        # The episode packages' older streams set the flag alone and mean the codec that the header names.
        default = {CODEC_ZSTD: ENTRY_ZSTD, CODEC_LZ4: ENTRY_LZ4}.get(self.header.compression_default, 0)
        if not default and entry.disk_size != entry.orig_size:
            raise CodecError(f"{where}: compressed by a codec that neither the entry nor the header names")
        return default

    def _check(self, entry: IndexEntry, data: Buffer, stored: memoryview, where: str) -> None:
        if not entry.checksum and not self.header.flags & FLAG_HAS_CHECKSUMS:
            return
        found = checksum(data)
        if found == entry.checksum:
            return
        if entry.compressed and not entry.flags & (ENTRY_ZSTD | ENTRY_LZ4) and checksum(stored) == entry.checksum:
            message = f"{where}: its checksum is that of the compressed bytes, as one older stream writer stored it"
            warnings.warn(message, FormatWarning, stacklevel=4)
            return
        raise ChecksumError(f"{where}: Checksum mismatch: stored 0x{entry.checksum:08x}, computed 0x{found:08x}")

    def digest(self) -> str:
        """Return the content digest, 32 hex digits: equal files have equal digests, wherever they lie.

        Hashes everything before the data, which holds the CRC32C of every block; what no CRC32C covers is hashed too.
        """
        state = xxhash.xxh3_128(self._buffer[: self.header.data_section_offset])
        for entry in self.entries:
            if entry.disk_size and not entry.checksum:
                state.update(self._buffer[entry.data_offset : entry.data_offset + entry.disk_size])
        if self.header.schema_offset:
            state.update(self._buffer[self.header.schema_offset :])
        return state.hexdigest()

    def verify(self) -> Iterator[tuple[IndexEntry, FormatError | None]]:
        """Check every block in turn: yields the entry and None, or the error that reading it raises."""
        for number, entry in enumerate(self.entries):
            try:
                self.block(number)
            except FormatError as error:
                yield entry, error
            else:
                yield entry, None


def _buffer_of(source: PathOrFile | Buffer) -> tuple[memoryview, str]:
    """Return a read-only view of the source's bytes and its name for messages: input starts at this line."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return memoryview(source).toreadonly().cast("B"), "<bytes>"
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            size = os.fstat(descriptor).st_size
            if size <= _READ_WHOLE_BELOW:
                return memoryview(_read_whole(descriptor, size)), path
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)), path
        finally:
            os.close(descriptor)
    return memoryview(source.read()), str(getattr(source, "name", "<file object>"))


def _read_whole(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size)
    while len(data) < size and (more := os.read(descriptor, size - len(data))):
        data += more
    return data
