"""Pack files into ShardPacks: folders, WebDataset tars, single files and other ShardPacks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.errors import LimitError, SourceNotFoundError, WShardError
from wshard.training.shardpack.layout import MAX_ENTRY_SIZE, SUFFIX
from wshard.training.shardpack.names import split_member
from wshard.training.shardpack.record import RecordMetadata
from wshard.training.shardpack.tar import read_tar
from wshard.training.shardpack.unpack import iterate_records
from wshard.training.shardpack.writer import NewEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wshard.training.shardpack.writer import ShardPackWriter

_TAR: Final = ".tar"
Sample = tuple[str, list[NewEntry], RecordMetadata]


def pack_sources(
    sources: Iterable[str | os.PathLike[str]],
    writer: ShardPackWriter,
    *,
    progress: Callable[[int], None] | None = None,
    failed: dict[str, Exception] | None = None,
) -> int:
    """Write the samples of all sources, in order; returns the number of records written.

    progress: called with the number after each record. failed: takes the errors of sources that cannot be read, by
    path, of which there are the records before the error; the others are written. None: the first error is raised.

    The key of a file is its path below the source up to the first dot of its name; the rest is the name of the entry,
    as in WebDataset tars. Files with the same key form one record. Hidden files are skipped. Raises FormatError for a
    file without an extension and for keys in two sources, SourceNotFoundError, OSError.
    """
    count = 0
    for source in sources:
        for key, entries, metadata in _read_or_fail(source, failed):
            writer.write_record(key, entries, metadata)
            count += 1
            if progress is not None:
                progress(count)
    return count


def _read_or_fail(source: str | os.PathLike[str], failed: dict[str, Exception] | None) -> Iterator[Sample]:
    samples = read_samples(source)
    while True:
        try:
            sample = next(samples, None)
        except (OSError, WShardError) as error:
            if failed is None:
                raise
            failed[os.fspath(source)] = error
            return
        if sample is None:
            return
        yield sample  # errors in writing it are the caller's


def read_samples(source: str | os.PathLike[str]) -> Iterator[Sample]:
    """Yield key, files and metadata of each sample of a folder, tar, ShardPack (or a range of them), or single file."""
    path = Path(source)
    if path.name.endswith(SUFFIX):
        for record in iterate_records(source):
            files = [NewEntry(entry.name, entry.read(), entry.content_type) for entry in record]
            yield record.key, files, record.metadata
    elif not path.exists():
        raise SourceNotFoundError(f"{path}: expected a folder, a tar, a ShardPack or another file, found nothing")
    elif path.is_dir():
        yield from _read_folder(path)
    elif path.suffix == _TAR:
        yield from ((key, entries, RecordMetadata()) for key, entries in read_tar(path))
    else:
        key, name = split_member(path.name, str(path))
        yield key, [NewEntry(name, _read(path))], RecordMetadata()


def _read_folder(folder: Path) -> Iterator[Sample]:
    groups: dict[str, list[tuple[str, Path]]] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if not name.startswith(".") and path.is_file():
                key, entry_name = split_member(path.relative_to(folder).as_posix(), str(path))
                groups.setdefault(key, []).append((entry_name, path))
    if not groups:
        raise SourceNotFoundError(f"{folder}: expected files to pack, found none")
    for key in sorted(groups):
        yield key, [NewEntry(entry_name, _read(path)) for entry_name, path in groups[key]], RecordMetadata()


def _read(path: Path) -> bytes:
    if (size := path.stat().st_size) > MAX_ENTRY_SIZE:
        raise LimitError(f"{path}: {size} bytes: expected at most {MAX_ENTRY_SIZE}")
    return path.read_bytes()
