"""How a player turns the frames of an MP4: the display matrices of its tracks."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from wshard.errors import CodecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_HEADER: Final = struct.Struct(">I4s")
_LARGE: Final = struct.Struct(">Q")
_TRACK: Final = struct.Struct(">I")
_MATRIX: Final = struct.Struct(">9i")
_PLACES: Final = {0: (12, 40), 1: (20, 52)}  # of a track's number and matrix in tkhd, by its version
_MAX_BOXES: Final = 10_000


@dataclass(frozen=True)
class Turn:
    """What makes a stored frame the one that is shown: rows and columns exchanged, then each reversed or not."""

    exchange: bool = False
    reverse_rows: bool = False
    reverse_columns: bool = False

    def __call__(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """Return a frame [H, W, C] as it is shown."""
        pixels = pixels.swapaxes(0, 1) if self.exchange else pixels
        return pixels[:: -1 if self.reverse_rows else 1, :: -1 if self.reverse_columns else 1]


def read_matrices(file: IO[bytes]) -> dict[int, tuple[int, ...]]:
    """Return the display matrices by the numbers of the tracks, none of a damaged file; then seek to its begin."""
    matrices, size = {}, file.seek(0, os.SEEK_END)
    for kind, start, stop in _boxes(file, 0, size):
        for track, inner, end in _boxes(file, start, stop) if kind == b"moov" else ():
            for name, place, _ in _boxes(file, inner, end) if track == b"trak" else ():
                file.seek(place)
                data = file.read(_PLACES[1][1] + _MATRIX.size) if name == b"tkhd" else b""
                number, matrix = _PLACES.get(data[0], (0, 0)) if data else (0, 0)
                if matrix and len(data) >= matrix + _MATRIX.size:
                    matrices[_TRACK.unpack_from(data, number)[0]] = _MATRIX.unpack_from(data, matrix)
    file.seek(0)
    return matrices


def turn_of(matrix: tuple[int, ...] | None, where: str) -> Turn:
    """Return how frames are turned; raises CodecError for an angle that is no multiple of 90 degrees."""
    a, b, _, c, d = (matrix or (0,) * 5)[:5]
    if (a or d) and (b or c):
        raise CodecError(f"{where}: expected frames shown at a multiple of 90 degrees, found the matrix {a, b, c, d}")
    exchange = bool(b or c)
    return Turn(exchange, b < 0 if exchange else d < 0, c < 0 if exchange else a < 0)


def _boxes(file: IO[bytes], start: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield (kind, begin of its data, end) of the boxes between two places of a file."""
    for _ in range(_MAX_BOXES):
        file.seek(start)
        header = file.read(_HEADER.size + _LARGE.size) if start + _HEADER.size <= stop else b""
        if len(header) < _HEADER.size:
            return
        size, kind = _HEADER.unpack_from(header)
        begin = start + _HEADER.size
        if size == 1 and len(header) == _HEADER.size + _LARGE.size:
            size, begin = _LARGE.unpack_from(header, _HEADER.size)[0], begin + _LARGE.size
        end = stop if size == 0 else start + size
        if not begin <= end <= stop:
            return
        yield kind, begin, end
        start = end
