"""Files of a DreamerV3 replay: how they are recognised, and which follow which."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.formats.dreamer.files import IS_FIRST
from wshard.formats.look import LocationLook

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.formats.base import Location

SUFFIX: Final = ".npz"
_NAME: Final = re.compile(r"(\d{8}T\d{6}\w*)-(\w+)-(\w+)-(\d+)")


@dataclass(frozen=True)
class ReplayFile:
    """One file of a replay folder, TIME-UUID-SUCCESSOR-LENGTH.npz; a file with another name is a separate stream."""

    location: Location
    uuid: str
    successor: str
    steps: int


def is_replay(path: str | os.PathLike[str]) -> bool:
    """Return True if no other format has such a file: it has is_first, or the name of a replay file."""
    names = (path if isinstance(path, LocationLook) else LocationLook(path)).array_names
    return IS_FIRST in names or (bool(names) and file_of(os.fspath(path)) is not None)


def file_of(location: Location) -> ReplayFile | None:
    """Parse the name of a file of a replay folder; None for another name or a file object."""
    match = _NAME.fullmatch(Path(location).stem) if isinstance(location, (str, os.PathLike)) else None
    return ReplayFile(location, match[2], match[3], int(match[4])) if match else None


def files_in(folder: Path) -> dict[str, ReplayFile]:
    """Return the files of a folder by uuid."""
    files: dict[str, ReplayFile] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        file = file_of(path) or ReplayFile(path, path.stem, "", 0)
        if file.uuid not in files or files[file.uuid].steps < file.steps:  # a file that grew was saved again
            files[file.uuid] = file
    return files


def streams_of(files: Mapping[str, ReplayFile]) -> Iterator[list[ReplayFile]]:
    """Yield the files of each stream in order; bounds of streams follow from the names alone."""
    followers = {file.successor for file in files.values()}
    heads = [uuid for uuid in files if uuid not in followers]
    seen: set[str] = set()
    for head in (*heads, *files):  # after the heads, files that form a cycle
        stream = []
        uuid = head
        while uuid in files and uuid not in seen:
            seen.add(uuid)
            stream.append(files[uuid])
            uuid = files[uuid].successor
        if stream:
            yield stream
