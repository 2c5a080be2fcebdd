"""Files of arrays that belong to one camera of an episode each, in a folder per encoder: copies, rebuilt freely."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from bridge.index.derived_numbers import DerivedNumbers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

FOLDER: Final = "features"
"""Of the archive, with a folder per maker."""


class CameraFiles:
    """The files of one maker in a folder of the archive: a file per episode and camera, with a checksum.

    Files that are missing, cut, or of another maker or other data of the episode read as none; nothing depends on
    them, and what cannot be written is computed again.
    """

    def __init__(self, archive_folder: Path, maker: str) -> None:
        self._maker = maker
        self._folder = archive_folder / FOLDER / f"{zlib.crc32(maker.encode()):08x}"

    def read(self, uid: str, digest: str, camera: str) -> list[NDArray[Any]] | None:
        """Return the arrays of a camera of an episode with these data, None if there are none."""
        return self._numbers(digest).read_arrays(camera, _name(uid, camera))

    def write(self, uid: str, digest: str, camera: str, arrays: Sequence[NDArray[Any]]) -> None:
        """Replace what is stored; nothing where the archive's folder is not, as on another machine."""
        if self._folder.parents[1].is_dir():
            self._numbers(digest).write_arrays(camera, arrays, _name(uid, camera))

    def _numbers(self, digest: str) -> DerivedNumbers:
        return DerivedNumbers(self._folder, [self._maker, digest])


def _name(uid: str, camera: str) -> str:
    return f"{uid}-{zlib.crc32(camera.encode()):08x}.bin"
