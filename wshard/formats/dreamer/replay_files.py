"""Files of a DreamerV3 replay: how they are recognised, and which follow which."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wshard.core.files.file_object import OpenFilePlace
from wshard.formats.dreamer.files import IS_FIRST, STEPID
from wshard.formats.look import LocationLook, look_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location

SUFFIX: Final = ".npz"
_NAME: Final = re.compile(r"(\d{8}T\d{6}\w*)-(\w+)-(\w+)-(\d+)")
_OF_VERSION_2: Final = re.compile(r"\d{8}T\d{6}-\w+-\d+")  # without a successor: an episode, with actions a row later


@dataclass(frozen=True)
class ReplayFile:
    """One file of a replay folder, TIME-UUID-SUCCESSOR-LENGTH.npz; a file with another name is a separate stream."""

    location: Place
    uuid: str
    successor: str
    steps: int


def is_replay(location: Location | LocationLook) -> bool:
    """Return True if no other format has such a file: it has is_first, or the name of a replay file."""
    look = look_at(location)
    if _OF_VERSION_2.fullmatch(look.place.stem) and STEPID not in look.array_names:
        return False
    return IS_FIRST in look.array_names or (bool(look.array_names) and file_of(look.place) is not None)


def file_of(place: Place) -> ReplayFile | None:
    """Parse the name of a file of a replay folder; None for another name or a file object."""
    match = None if isinstance(place, OpenFilePlace) else _NAME.fullmatch(place.stem)
    return ReplayFile(place, match[2], match[3], int(match[4])) if match else None


def files_in(folder: Place) -> dict[str, ReplayFile]:
    """Return the files of a folder by uuid."""
    files: dict[str, ReplayFile] = {}
    for place in folder.glob(f"*{SUFFIX}"):
        file = file_of(place) or ReplayFile(place, place.stem, "", 0)
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
