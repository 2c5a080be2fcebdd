"""Read and write records as WebDataset tars: members are named KEY.NAME, and those of a key are adjacent."""

from __future__ import annotations

import io
import tarfile
from typing import IO, TYPE_CHECKING

from wshard.core.files.regular import open_file
from wshard.errors import FormatError, LimitError
from wshard.training.shardpack.layout import MAX_ENTRY_SIZE
from wshard.training.shardpack.names import member_name, split_member
from wshard.training.shardpack.writer import NewEntry

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from wshard.core.container.layout import Buffer
    from wshard.training.shardpack.record import ShardPackRecord


def read_tar(path: str | os.PathLike[str]) -> Iterator[tuple[str, list[NewEntry]]]:
    """Yield key and files of each sample of an uncompressed tar; raises FormatError, LimitError, OSError.

    Folders are skipped; links, devices and sparse members are refused.
    """
    with open_file(path) as file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                yield from _group(tar, str(path))
        except (tarfile.TarError, EOFError, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{path}: expected an uncompressed tar: {error}") from error


def _group(tar: tarfile.TarFile, path: str) -> Iterator[tuple[str, list[NewEntry]]]:
    current, entries = "", list[NewEntry]()
    for member in tar:
        where = f"{path}: member {member.name!r}"
        if member.isdir():
            continue
        if not member.isfile() or member.issparse():
            raise FormatError(f"{where}: expected a plain file, found a link, a device or a sparse file")
        key, name = split_member(member.name.removeprefix("./"), where)
        if key != current and entries:
            yield current, entries
            entries = []
        current = key
        entries.append(NewEntry(name, _read(tar, member, where)))
    if entries:
        yield current, entries


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo, where: str) -> bytes:
    if member.size > MAX_ENTRY_SIZE:
        raise LimitError(f"{where}: {member.size} bytes: expected at most {MAX_ENTRY_SIZE}")
    file = tar.extractfile(member)
    data = b"" if file is None else file.read()
    if len(data) != member.size:
        raise FormatError(f"{where}: expected {member.size} bytes, found {len(data)}: the tar is truncated")
    return data


class TarOutput:
    """Writes records to an uncompressed tar: mode 0644, no times, no owners, so that equal records give equal bytes."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115  (closed by close)
        self._where = where

    def write(self, record: ShardPackRecord) -> None:
        """Append the files of a record; raises FormatError for a key that could not be recovered from the tar."""
        for entry in record:
            self.append(member_name(record.key, entry.name, self._where), entry.read())

    def append(self, name: str, data: Buffer) -> None:
        """Append a member by its whole name."""
        member = tarfile.TarInfo(name)
        member.size = len(data)
        self._tar.addfile(member, io.BytesIO(data))

    def close(self) -> None:
        """Write the end of the tar."""
        self._tar.close()
