"""DreamerV3 replay as a Source and a Sink: one file, or a folder of files in which episodes cross files."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.chunks.split import join_pieces
from wshard.container.codec_plan import CodecPlan
from wshard.episode.lanes import DONE, REWARD, TRUNCATIONS
from wshard.episode.memory_reader import MemoryReader
from wshard.episode.protocol import EpisodeAddress
from wshard.errors import CodecError, FormatError, LaneError
from wshard.formats.draft_sink import list_context_losses, list_losses
from wshard.formats.dreamer.files import IS_FIRST, IS_LAST, STEPID, episode_of, id_of, length_of, save_dreamer, where_of
from wshard.formats.file_per_episode import FilesSink, FilesSource, folder_of
from wshard.formats.npz import read_npz

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wshard.container.codec_plan import Compression
    from wshard.container.draft import WriteMode
    from wshard.episode.info import EpisodeInfo
    from wshard.episode.protocol import EpisodeReader
    from wshard.formats.base import Location
    from wshard.types import Array, Episode

_SUFFIX: Final = ".npz"
_LOOKED_AT: Final = 8
_NAME: Final = re.compile(r"(\d{8}T\d{6}\w*)-(\w+)-(\w+)-(\d+)")


@dataclass(frozen=True)
class _File:
    """One file of a replay folder, TIME-UUID-SUCCESSOR-LENGTH.npz; a file with another name is a separate stream."""

    location: Location
    uuid: str
    successor: str
    steps: int


@dataclass(frozen=True)
class _Piece:
    """Rows [start, stop) of a file; none of a damaged one, whose episodes are unknown."""

    location: Location
    start: int
    stop: int


class DreamerSource(FilesSource[list[_Piece]]):
    """The episodes that is_first begins, in a folder across its files, or in one file or file object.

    The key of an episode is the uuid of its first file, with "-ROW" where it begins at a later row; "" for the only one
    of a file. Keys are in order of recording, and stay what they are while files are added. To open one episode of a
    folder, only the flags of its own files are read. Raises FormatError for a file of a replay folder whose episodes
    begin or go on in another file beside it: read the folder.
    """

    meaning = (
        ("is_first", "where an episode begins; it may go on in the next file"),
        ("action", "action/action; row t has the action taken at step t, as version 3 writes it"),
        ("reward", "reward"),
        ("is_terminal", "done"),
        ("is_last", "aux/truncations; without is_terminal, done"),
        ("any other array [T, ...]", "signal/NAME"),
        ("clock, task, success", "not stated: the rate is assumed"),
    )

    @staticmethod
    def matches(location: Location) -> bool:
        """Say whether a path is a folder of replay files, by the first readable .npz file in it."""
        folder = folder_of(location)
        for path in [] if folder is None else nsmallest(_LOOKED_AT, folder.glob(f"*{_SUFFIX}")):
            with contextlib.suppress(FormatError, OSError):  # of a damaged file, which must not hide the others
                return _file_of(path) is not None or IS_FIRST in read_npz(path, (IS_FIRST,))
        return False

    @cached_property
    def _streams(self) -> list[list[_File]]:
        folder = folder_of(self._location)
        return [] if folder is None else list(_streams(_files_in(folder)))

    @cached_property
    def _places(self) -> dict[str, tuple[list[_File], int]]:
        """The stream that each file of the folder belongs to, and its number there, by uuid."""
        return {file.uuid: (stream, number) for stream in self._streams for number, file in enumerate(stream)}

    def _scan(self) -> Mapping[str, list[_Piece]]:
        if folder_of(self._location) is not None:
            return _by_key(found for stream in self._streams for found in _episodes(stream))
        file = _file_of(self._location) or _File(self._location, id_of(self._location), "", 0)
        episodes = _by_key(_episodes([file]))
        _refuse_torn(file)
        return {"": next(iter(episodes.values()))} if len(episodes) == 1 else episodes

    def _find(self, key: str) -> list[_Piece]:
        head, _, row = key.rpartition("-")
        uuid, start = (key, 0) if key in self._places else (head, int(row) if row.isdecimal() else -1)
        if "_episodes" in vars(self) or uuid not in self._places or start < 0:
            return super()._find(key)
        stream, number = self._places[uuid]
        if start == 0 and number > 0 and not _first_flags(stream[number].location)[0]:
            return super()._find(key)  # which says that there is none
        found = next((pieces for other, pieces in _episodes(stream[number:]) if other == key), None)
        return super()._find(key) if found is None else found

    def _files(self, ref: list[_Piece]) -> list[Location]:
        return list(dict.fromkeys(piece.location for piece in ref))

    def open(self, key: str) -> EpisodeReader:
        """Open one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        return MemoryReader(self.load(key), str(EpisodeAddress(where_of(self._location), key)))

    def load(self, key: str) -> Episode:
        """Return one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        return _load(self._find(key), key or id_of(self._location))


def _by_key(found: Iterable[tuple[str, list[_Piece]]]) -> dict[str, list[_Piece]]:
    episodes: dict[str, list[_Piece]] = {}
    for key, pieces in found:
        if key in episodes:
            raise FormatError(f"{where_of(pieces[0].location)}: expected one episode {key!r}, found two: rename it")
        episodes[key] = pieces
    return episodes


def _episodes(stream: Iterable[_File]) -> Iterator[tuple[str, list[_Piece]]]:
    """Yield the key of each episode of a stream, and where its rows are; flags are read as far as is asked.

    A damaged file is one with the episode that was not over before it, and with what goes on after it.
    """
    key, pieces = "", list[_Piece]()
    for file in stream:
        try:
            first = _first_flags(file.location)
        except FormatError:
            if pieces and _ends(pieces[-1]):
                yield key, pieces
                pieces = []
            key = key if pieces else file.uuid
            pieces.append(_Piece(file.location, 0, 0))
            continue
        begins = set(np.flatnonzero(first).tolist())
        for start, stop in pairwise(sorted({0, *begins, len(first)})):
            if pieces and start in begins:
                yield key, pieces
                pieces = []
            if not pieces:
                key = f"{file.uuid}-{start}" if start else file.uuid
            pieces.append(_Piece(file.location, start, stop))
    if pieces:
        yield key, pieces


def _refuse_torn(file: _File) -> None:
    """Refuse a file with an episode that begins in the file before it or continues in the next one."""
    if not file.successor or not isinstance(file.location, (str, os.PathLike)):
        return
    beside = _files_in(Path(file.location).parent)
    before = next((other for other in beside.values() if other.successor == file.uuid), None)
    after = beside.get(file.successor)
    for other, later in ((before, file), (after, after)):
        if other is not None and later is not None and not _first_flags(later.location)[0]:
            does = "begins" if other is before else "goes on"
            raise FormatError(
                f"{file.location}: expected whole episodes, found one that {does} "
                f"in {Path(where_of(other.location)).name}: read the folder (load_dreamer reads the file as it is)"
            )


def _file_of(location: Location) -> _File | None:
    """Return what the name of a file of a replay folder says, None for another name or a file object."""
    parsed = _NAME.fullmatch(Path(location).stem) if isinstance(location, (str, os.PathLike)) else None
    return _File(location, parsed[2], parsed[3], int(parsed[4])) if parsed else None


def _files_in(folder: Path) -> dict[str, _File]:
    """Return the files of a folder by uuid."""
    files: dict[str, _File] = {}
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        file = _file_of(path) or _File(path, path.stem, "", 0)
        if file.uuid not in files or files[file.uuid].steps < file.steps:  # a file that grew was saved again
            files[file.uuid] = file
    return files


def _streams(files: Mapping[str, _File]) -> Iterator[list[_File]]:
    """Yield the files of each stream in order; bounds of streams follow from the names alone."""
    followers = {file.successor for file in files.values()}
    heads = [uuid for uuid in files if uuid not in followers]
    seen: set[str] = set()
    for head in (*heads, *files):  # after the heads, what hangs together in a ring
        stream = []
        uuid = head
        while uuid in files and uuid not in seen:
            seen.add(uuid)
            stream.append(files[uuid])
            uuid = files[uuid].successor
        if stream:
            yield stream


def _first_flags(location: Location) -> Array:
    flags = read_npz(location, (IS_FIRST,)).get(IS_FIRST)
    if flags is None:
        return np.zeros(length_of(read_npz(location), where_of(location)), np.bool_)
    if flags.ndim != 1 or not len(flags):
        raise LaneError(f"{where_of(location)}: {IS_FIRST!r}: expected flags [T], found {list(flags.shape)}")
    return flags


def _ends(piece: _Piece) -> bool:
    """Say whether an episode is over at the end of a piece, which is readable."""
    last = read_npz(piece.location, (IS_LAST,)).get(IS_LAST) if piece.stop else None
    return last is not None and last.shape[:1] >= (piece.stop,) and bool(np.all(last[piece.stop - 1]))


def _load(pieces: Sequence[_Piece], id_: str) -> Episode:
    read = [_rows(piece) for piece in pieces]
    constants, parts = read[0][1], [steps for steps, _ in read]
    for piece, part in zip(pieces, parts, strict=True):
        different = sorted(set(part) ^ set(parts[0]))
        if different:
            raise LaneError(f"{where_of(piece.location)}: {different[0]!r} is not in every file of the episode")
    arrays = {}
    for key in parts[0]:
        try:
            arrays[key] = join_pieces([part[key] for part in parts])
        except LaneError as error:
            raise LaneError(f"{where_of(pieces[0].location)}: {key!r}: {error}") from None
    return episode_of(constants | arrays, id_, where_of(pieces[0].location))


def _rows(piece: _Piece) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the piece's rows of all arrays [T, ...] of its file, and the other arrays as they are."""
    if not piece.stop:
        _first_flags(piece.location)  # which says what is wrong with it
    arrays = read_npz(piece.location)
    where = where_of(piece.location)
    steps = length_of(arrays, where)
    if piece.stop > steps:
        raise LaneError(f"{where}: {IS_FIRST!r}: length mismatch: expected {steps} timesteps, found {piece.stop}")
    rows = {key: array[piece.start : piece.stop] for key, array in arrays.items() if array.shape[:1] == (steps,)}
    return rows, {key: array for key, array in arrays.items() if key not in rows}


class DreamerSink(FilesSink):
    """A path or file object takes one episode; a folder takes many, each in a file named after its id."""

    cannot_hold = (
        "metadata, rates and environments",
        "predictions, uncertainties and residuals",
        "bf16, which becomes float32",
    )
    suffix = _SUFFIX

    def __init__(self, location: Location, *, compression: Compression = "none", mode: WriteMode = "append") -> None:
        if CodecPlan.of(compression).compresses:
            raise CodecError(f"compression: expected none for an .npz file, found {compression!r}")
        super().__init__(location, mode=mode)

    def _save(self, ep: Episode, location: Location) -> None:
        save_dreamer(ep, location)

    def _key(self, path: Path) -> str:
        return path.stem

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what a replay file cannot store of an episode."""
        metadata = [name for name in info.metadata if name not in (IS_FIRST, STEPID)]
        found = list_losses(info, {REWARD, DONE, TRUNCATIONS}, "key") + list_context_losses(info)
        return found + [f"metadata {name!r}: no place for it" for name in metadata]
