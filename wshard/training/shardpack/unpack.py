"""Write the entries of ShardPack files as files in a new folder, or as the members of a WebDataset tar."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wshard.core.container.atomic_write import name_place
from wshard.core.container.draft import Draft
from wshard.core.files.listed import is_nameable
from wshard.core.messages import shown
from wshard.errors import FormatError, RecordingExistsError
from wshard.training.shardpack.names import check_path
from wshard.training.shardpack.reader import ShardPackReader
from wshard.training.shardpack.shards import expand_shards
from wshard.training.shardpack.tar import TarOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wshard.training.shardpack.record import ShardPackRecord


@dataclass(frozen=True)
class UnpackReport:
    """Numbers of written records and files; without_metadata: records whose metadata could not be written."""

    records: int
    files: int
    without_metadata: int


def unpack_shardpack(
    source: str | os.PathLike[str], target: str | os.PathLike[str], *, overwrite: bool = False
) -> UnpackReport:
    """Write each entry as KEY.NAME below the folder `target`, or into it if its name ends in .tar; all or nothing.

    source: a file, or a brace range of files. Leftovers of a killed process for the same target are removed. Raises
    FormatError for a key that leaves the folder or two entries with one path, RecordingExistsError for a target that
    exists (overwrite is for tars only), OSError.
    """
    final = Path(target)
    as_tar = final.suffix == ".tar"
    if final.exists() and not (as_tar and overwrite):
        advice = "name another file, or overwrite (--overwrite)" if as_tar else "expected a new folder"
        raise RecordingExistsError(f"{final} exists already: {advice}")
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = Draft(final, "overwrite" if as_tar else "error", folder=not as_tar, owned=[""])
    try:
        report = _unpack_tar(source, draft.path, final) if as_tar else _unpack(source, _FolderOutput(draft).write)
        draft.publish()
    except BaseException as error:
        draft.discard()
        name_place(error, final)
        raise
    return report


def _unpack_tar(source: str | os.PathLike[str], path: Path, final: Path) -> UnpackReport:
    with path.open("xb") as file:
        output = TarOutput(file, str(final))
        report = _unpack(source, output.write)
        output.close()
    return report


def _unpack(source: str | os.PathLike[str], write: Callable[[ShardPackRecord], None]) -> UnpackReport:
    records = files = without = 0
    for record in iterate_records(source):
        write(record)
        records, files, without = records + 1, files + len(record), without + bool(record.metadata.data)
    return UnpackReport(records, files, without)


def iterate_records(source: str | os.PathLike[str]) -> Iterator[ShardPackRecord]:
    """Yield all records of a file, or of a brace range of files."""
    for path in expand_shards(source):
        with ShardPackReader(path) as pack:
            yield from pack


class _FolderOutput:
    """Writes into a new folder, which contains only files written here, so that no link can lead out of it."""

    def __init__(self, draft: Draft) -> None:
        self._folder, self._final = draft.path, draft.target

    def write(self, record: ShardPackRecord) -> None:
        """Write the entries of a record as files."""
        for entry in record:
            name = f"{record.key}.{entry.name}"
            check_path(name, f"{record.where}: entry {entry.name!r}: as a path")
            if not is_nameable(name) or (":" in name and os.name == "nt"):
                raise FormatError(f"{record.where}: expected a path that a file can have, found {shown(name)}")
            path = self._folder.joinpath(*name.split("/"))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    file.write(entry.read())
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise FormatError(f"{record.where}: expected a path of its own, found {shown(name)} twice") from None
            except OSError as error:
                error.filename = str(self._final.joinpath(name))  # the error of a full disk names no file
                raise
