"""DreamerV3 replay as a Source and a Sink: one file, or a folder of files in which episodes cross files.

Knows: the names TIME-UUID-SUCCESSOR-LENGTH.npz, how successors make streams, and that is_first begins an episode.
Does not know: the keys of a file (dreamer.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.codec import CompressionType
from wshard.codec_plan import CodecPlan
from wshard.errors import CodecError, LaneError
from wshard.formats.dreamer import IS_FIRST, episode_of, length_of, load_dreamer, save_dreamer
from wshard.formats.npz import read_npz
from wshard.formats.places import FilesSink, FilesSource, folder_of
from wshard.splitting import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wshard.codec_plan import Compression
    from wshard.formats.base import Location
    from wshard.types import Array, Episode

_SUFFIX: Final = ".npz"
_NAME: Final = re.compile(r"(\d{8}T\d{6}\w*)-(\w+)-(\w+)-(\d+)")


@dataclass(frozen=True)
class _File:
    """One file of a replay folder; a file of another name is a stream of its own."""

    path: Path
    uuid: str
    successor: str
    steps: int


@dataclass(frozen=True)
class _Piece:
    """Rows [start, stop) of a file."""

    path: Path
    start: int
    stop: int


class DreamerSource(FilesSource[list[_Piece]]):
    """A file or file object holds the one episode "". A folder holds the episodes that is_first begins.

    In a folder the key of an episode is the uuid of its first file, with "-ROW" where it begins at a later row; keys
    are in order of recording.
    """

    def __init__(self, location: Location) -> None:
        folder = folder_of(location)
        super().__init__(location, {"": []} if folder is None else _episodes_in(folder))

    def load(self, key: str) -> Episode:
        """Return one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        pieces = self._find(key)
        return _load(pieces, key) if pieces else load_dreamer(self._location)


def _episodes_in(folder: Path) -> dict[str, list[_Piece]]:
    episodes: dict[str, list[_Piece]] = {}
    for stream in _streams(folder):
        pieces: list[_Piece] = []
        for file in stream:
            first = _first_flags(file.path)
            begins = set(np.flatnonzero(first).tolist())
            for start, stop in pairwise(sorted({0, *begins, len(first)})):
                if start in begins or not pieces:
                    pieces = episodes.setdefault(f"{file.uuid}-{start}" if start else file.uuid, [])
                pieces.append(_Piece(file.path, start, stop))
    return episodes


def _streams(folder: Path) -> Iterator[list[_File]]:
    """Yield the files of each stream in order; where a stream ends and which begins is told by names alone."""
    files: dict[str, _File] = {}
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        parsed = _NAME.fullmatch(path.stem)
        file = _File(path, parsed[2], parsed[3], int(parsed[4])) if parsed else _File(path, path.stem, "", 0)
        if file.uuid not in files or files[file.uuid].steps < file.steps:  # a file that grew was saved again
            files[file.uuid] = file
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


def _first_flags(path: Path) -> Array:
    flags = read_npz(path, (IS_FIRST,)).get(IS_FIRST)
    if flags is None:
        return np.zeros(length_of(read_npz(path), str(path)), np.bool_)
    if flags.ndim != 1:
        raise LaneError(f"{path}: {IS_FIRST!r}: expected flags [T], found {list(flags.shape)}")
    return flags


def _load(pieces: Sequence[_Piece], id_: str) -> Episode:
    read = [_rows(piece) for piece in pieces]
    constants, parts = read[0][1], [steps for steps, _ in read]
    for piece, part in zip(pieces, parts, strict=True):
        different = sorted(set(part) ^ set(parts[0]))
        if different:
            raise LaneError(f"{piece.path}: {different[0]!r} is not in every file of the episode")
    arrays = {}
    for key in parts[0]:
        try:
            arrays[key] = joined([part[key] for part in parts])
        except LaneError as error:
            raise LaneError(f"{pieces[0].path}: {key!r}: {error}") from None
    return episode_of(constants | arrays, id_, str(pieces[0].path))


def _rows(piece: _Piece) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the piece's rows of all arrays [T, ...] of its file, and the other arrays as they are."""
    arrays = read_npz(piece.path)
    steps = length_of(arrays, str(piece.path))
    if piece.stop > steps:
        raise LaneError(f"{piece.path}: {IS_FIRST!r}: length mismatch: expected {steps} timesteps, found {piece.stop}")
    rows = {key: array[piece.start : piece.stop] for key, array in arrays.items() if array.shape[:1] == (steps,)}
    return rows, {key: array for key, array in arrays.items() if key not in rows}


class DreamerSink(FilesSink):
    """A path or file object takes one episode; a folder takes many, each in a file named after its id."""

    suffix = _SUFFIX

    def __init__(self, location: Location, *, compression: Compression = "none") -> None:
        codecs = {codec.type for _, codec in CodecPlan.of(compression).rules}
        if codecs - {CompressionType.NONE}:
            raise CodecError(f"compression: expected none for an .npz file, found {compression!r}")
        super().__init__(location)

    def _save(self, ep: Episode, location: Location) -> None:
        save_dreamer(ep, location)

    def _key(self, path: Path) -> str:
        return path.stem
