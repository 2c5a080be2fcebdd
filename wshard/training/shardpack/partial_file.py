"""A ShardPack being written: `NAME.shardpack.partial`, locked until it is complete and renamed."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.container.atomic_write import lock_descriptor
from wshard.core.container.layout import name_hash
from wshard.errors import RecordingExistsError
from wshard.training.shardpack.index import PackIndex, key_table
from wshard.training.shardpack.shards import partial_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from wshard.core.container.layout import Buffer

_BUFFER: Final = 1 << 18


def leftover_error(path: Path) -> RecordingExistsError:
    """Return the error for the partial file of an interrupted writer."""
    return RecordingExistsError(
        f"{path} was left by an interrupted writer: `wshard repair` restores its records, --overwrite replaces it"
    )


class PartialFile:
    """Appends records to `<final>.partial`; finish() adds the index; name_files() renames it.

    overwrite: replace the partial file of a killed writer. Raises RecordingExistsError for such a file otherwise, and
    while another writer is active; OSError.
    """

    def __init__(self, final: Path, *, overwrite: bool) -> None:
        self.final = final
        self.path = partial_path(final)
        self.size = 0
        self._offsets: list[int] = []
        self._hashes: list[int] = []
        self._file = self._create(overwrite=overwrite)

    def _create(self, *, overwrite: bool) -> int:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        with self._naming_final():
            descriptor = os.open(self.path, flags, 0o666)
        try:
            self._check_unused(descriptor, overwrite=overwrite)
            os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_unused(self, descriptor: int, *, overwrite: bool) -> None:
        """Lock the file; raises RecordingExistsError if another writer is using it, or left data in it."""
        if lock_descriptor(descriptor) is False:
            raise RecordingExistsError(f"{self.path}: another writer is active")
        status = os.fstat(descriptor)
        if not (self.path.exists() and os.path.samestat(status, self.path.stat())):
            raise RecordingExistsError(f"{self.path}: another writer was just ending: try again")
        if status.st_size and not overwrite:
            raise leftover_error(self.path)

    @contextlib.contextmanager
    def _naming_final(self) -> Iterator[None]:
        """Make system errors name the requested file."""
        try:
            yield
        except OSError as error:
            error.filename = str(self.final)
            raise

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, key: str, parts: Sequence[Buffer]) -> None:
        """Write one record; raises OSError, after which nothing more can be written."""
        start = self.size
        self._write(b"".join(parts) if sum(map(len, parts)) <= _BUFFER else parts)
        self._offsets.append(start)
        self._hashes.append(name_hash(key))

    def _write(self, parts: bytes | Sequence[Buffer]) -> None:
        with self._naming_final():
            for part in (parts,) if isinstance(parts, bytes) else parts:
                remaining = memoryview(part)
                while remaining:
                    written = os.write(self._file, remaining)
                    self.size += written
                    remaining = remaining[written:]

    def finish(self, metadata: Mapping[str, Any], *, with_table: bool, first: bool = True) -> None:
        """Write index and footer, and fsync the file; first: keep the file open, as its lock is that of a range."""
        table = key_table(self._hashes) if with_table and self._hashes else None
        if self._file < 0:
            with self._naming_final():
                self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
        self._write(PackIndex(np.array(self._offsets, np.uint64), table, metadata).pack(self.size))
        with self._naming_final():
            os.fsync(self._file)
        if not first:
            self.pause()

    def discard(self) -> None:
        """Remove the partial file."""
        self.path.unlink(missing_ok=True)
        self.pause()

    def pause(self) -> None:
        """Release the file and its lock; finish() opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
