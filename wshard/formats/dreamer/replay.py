"""DreamerV3 replay as a Source and a Sink: one file, or a folder of files; an episode may span several files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.chunks.split import join_pieces
from wshard.core.episode.lanes import DONE, REWARD, TRUNCATIONS
from wshard.core.episode.memory_reader import MemoryReader
from wshard.core.episode.protocol import EpisodeAddress
from wshard.errors import FormatError, LaneError
from wshard.formats.draft_sink import list_context_losses, list_losses
from wshard.formats.dreamer.files import (
    IS_FIRST,
    IS_LAST,
    STEPID,
    episode_of,
    find_lane,
    id_of,
    length_of,
    read_recorded,
    save_dreamer,
    where_of,
)
from wshard.formats.dreamer.replay_files import SUFFIX, ReplayFile, file_of, files_in, is_replay, streams_of
from wshard.formats.file_per_episode import FilesSink, FilesSource
from wshard.formats.look import look_at
from wshard.formats.npz import read_npz
from wshard.formats.table import how_to_describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.protocol import EpisodeReader
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location, PathOrFile
    from wshard.core.types import Array, Episode
    from wshard.formats.look import LocationLook

_MAX_FILES_TRIED: Final = 8


@dataclass(frozen=True)
class _Piece:
    """Rows [start, stop) of a file; none of a damaged one, whose episodes are unknown."""

    location: Place
    start: int
    stop: int


class DreamerSource(FilesSource[list[_Piece]]):
    """The episodes that is_first begins, in a folder across its files, or in one file or file object.

    The key of an episode is the uuid of its first file, with "-ROW" if it begins at a later row; "" for the only one of
    a file. Keys are in order of recording, and do not change while files are added. Opening one episode of a folder
    reads the flags of its own files only. Raises FormatError for a single file of a replay folder if one of its
    episodes begins or continues in another file: read the folder.
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
    own_lanes = True

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Return True for a file with is_first or a name of replay files, and for a folder with one of its first."""
        look = look_at(location)
        if not look.is_folder:
            return is_replay(look)
        return any(is_replay(file) for file in look.place.glob(f"*{SUFFIX}")[:_MAX_FILES_TRIED])

    @cached_property
    def _streams(self) -> list[list[ReplayFile]]:
        return list(streams_of(files_in(self._place))) if self._place.is_dir() else []

    @cached_property
    def _stream_positions(self) -> dict[str, tuple[list[ReplayFile], int]]:
        """The stream of each file of the folder, and its position there, by uuid."""
        return {file.uuid: (stream, number) for stream in self._streams for number, file in enumerate(stream)}

    def _scan(self) -> Mapping[str, list[_Piece]]:
        if self._place.is_dir():
            return _by_key(episode for stream in self._streams for episode in _episodes(stream))
        file = file_of(self._place) or ReplayFile(self._place, id_of(self._place), "", 0)
        episodes = _by_key(_episodes([file]))
        _refuse_torn(file)
        return {"": next(iter(episodes.values()))} if len(episodes) == 1 else episodes

    def _find(self, key: str) -> list[_Piece]:
        prefix, _, row = key.rpartition("-")
        uuid, start = (key, 0) if key in self._stream_positions else (prefix, int(row) if row.isdecimal() else -1)
        if "_episodes" in vars(self) or uuid not in self._stream_positions or start < 0:
            return super()._find(key)
        stream, number = self._stream_positions[uuid]
        if start == 0 and number > 0 and not _first_flags(stream[number].location)[0]:
            return super()._find(key)  # raises EntryNotFoundError
        pieces_of_key = next((pieces for other, pieces in _episodes(stream[number:]) if other == key), None)
        return super()._find(key) if pieces_of_key is None else pieces_of_key

    def _files(self, ref: list[_Piece]) -> list[Place]:
        return list(dict.fromkeys(piece.location for piece in ref))

    def open(self, key: str) -> EpisodeReader:
        """Open one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        return MemoryReader(self.load(key), str(EpisodeAddress(where_of(self._place), key)))

    def load(self, key: str) -> Episode:
        """Return one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        pieces = self._find(key)
        if self._place.is_dir():
            for piece in pieces:
                self._expect_replay(piece)
        return _load(pieces, key or id_of(self._place))

    def _expect_replay(self, piece: _Piece) -> None:
        """Refuse other arrays among files of a replay, such as weights; without flags in any, each is an episode."""
        if piece.stop and not is_replay(piece.location) and self.matches(self._place):
            raise FormatError(
                f"{piece.location}: expected {IS_FIRST!r}, as in other files of the folder: "
                f"move the file to another folder; if it has episodes, {how_to_describe(piece.location)}"
            )


def _by_key(keyed_pieces: Iterable[tuple[str, list[_Piece]]]) -> dict[str, list[_Piece]]:
    episodes: dict[str, list[_Piece]] = {}
    for key, pieces in keyed_pieces:
        if key in episodes:
            raise FormatError(f"{where_of(pieces[0].location)}: expected one episode {key!r}, found two: rename it")
        episodes[key] = pieces
    return episodes


def _episodes(stream: Iterable[ReplayFile]) -> Iterator[tuple[str, list[_Piece]]]:
    """Yield the key and the pieces of each episode of a stream; flags are read only as far as it is consumed.

    A damaged file belongs to the episode that was unfinished before it, and so do rows after it until the next start.
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
        starts_here = set(np.flatnonzero(first).tolist())
        for start, stop in pairwise(sorted({0, *starts_here, len(first)})):
            if pieces and start in starts_here:
                yield key, pieces
                pieces = []
            if not pieces:
                key = f"{file.uuid}-{start}" if start else file.uuid
            pieces.append(_Piece(file.location, start, stop))
    if pieces:
        yield key, pieces


def _refuse_torn(file: ReplayFile) -> None:
    """Refuse a file with an episode that begins in the file before it or continues in the next one."""
    if not file.successor:
        return
    files = files_in(file.location.parent)
    previous = next((other_file for other_file in files.values() if other_file.successor == file.uuid), None)
    following = files.get(file.successor)
    for other_file, later_file in ((previous, file), (following, following)):
        if other_file is not None and later_file is not None and not _first_flags(later_file.location)[0]:
            verb = "begins" if other_file is previous else "goes on"
            raise FormatError(
                f"{file.location}: expected whole episodes, found one that {verb} "
                f"in {other_file.location.name}: read the folder (load_dreamer reads the file as it is)"
            )


def _first_flags(location: Place) -> Array:
    flags = read_npz(location, (IS_FIRST,)).get(IS_FIRST)
    if flags is None:
        return np.zeros(length_of(read_npz(location), where_of(location)), np.bool_)
    if flags.ndim != 1 or not len(flags):
        raise LaneError(f"{where_of(location)}: {IS_FIRST!r}: expected flags [T], found {list(flags.shape)}")
    return flags


def _ends(piece: _Piece) -> bool:
    """Return True if an episode ends with the last row of a readable piece."""
    last = read_npz(piece.location, (IS_LAST,)).get(IS_LAST) if piece.stop else None
    return last is not None and last.shape[:1] >= (piece.stop,) and bool(np.all(last[piece.stop - 1]))


def _load(pieces: Sequence[_Piece], id_: str) -> Episode:
    rows_and_constants = [_rows(piece) for piece in pieces]
    constants, parts = rows_and_constants[0][1], [steps for steps, _ in rows_and_constants]
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
    """Return the piece's rows of all arrays [T, ...] of its file, and the other arrays unchanged."""
    if not piece.stop:
        _first_flags(piece.location)  # raises the error of the damaged file
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
    suffix = SUFFIX

    codecs = "an .npz file has its own"
    keeps_bfloat16 = False

    @classmethod
    def _is_own(cls, path: Path) -> bool:
        try:
            return IS_FIRST in read_npz(path, (IS_FIRST,))
        except (FormatError, OSError):
            return False

    def _save(self, ep: Episode, location: PathOrFile) -> None:
        save_dreamer(ep, location, whole=True)

    def _key(self, path: Path) -> str:
        return path.stem

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what a replay file cannot store of an episode."""
        losses = list_losses(info, {REWARD, DONE, TRUNCATIONS}, "key") + list_context_losses(info)
        lanes = {block: lane for block, lane in info.lanes.items() if block.startswith(("signal/", "action/"))}
        found = {block: find_lane(block, lane, info.length) for block, lane in lanes.items()}
        losses += [f"{block}: becomes {other}" for block, other in found.items() if other != block]
        if DONE in info.lanes:
            losses.append(f"{TRUNCATIONS}: the last timestep and those of {DONE} count as truncated")
        else:
            losses.append(f"{DONE}: is true at the last timestep and where the episode was truncated")
            losses += [f"{TRUNCATIONS}: becomes {DONE}"] if TRUNCATIONS in info.lanes else []
        first = read_recorded(info, IS_FIRST, np.bool_, 1)
        stored_names = {IS_FIRST} if first is not None and not first[1:].any() and first[0] else set[str]()
        stored_names |= {STEPID} if read_recorded(info, STEPID, np.uint8, 2) is not None else set()
        return losses + [f"metadata {name!r}: no place for it" for name in info.metadata if name not in stored_names]
