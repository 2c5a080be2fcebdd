"""Files that were compressed as a whole, as ROS 2 bags can be: a plain copy that is deleted once it is open."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import zstandard

from wshard.core.files.local import LocalPlace
from wshard.errors import CodecError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.files.place import Place

PACKED: Final = ".zstd"
MAX_UNPACKED: Final = 1 << 34
"""Largest unpacked copy in bytes, unless half of the free space for temporary files is less."""

_BATCH_SIZE: Final = 1 << 20
_LARGEST_HEADER: Final = 18
_LARGEST_WINDOW: Final = 1 << 27


@contextlib.contextmanager
def unpack_file(place: Place) -> Iterator[LocalPlace]:
    """Give a plain copy of a file of zstd; raises CodecError, LimitError, MissingFileError."""
    with tempfile.TemporaryDirectory(prefix="wshard-") as folder:
        most = min(MAX_UNPACKED, shutil.disk_usage(folder).free // 2)
        plain = Path(folder, place.name.removesuffix(PACKED))
        with place.open() as packed, plain.open("wb") as file:
            try:
                stated = zstandard.frame_content_size(packed.read(_LARGEST_HEADER))
                packed.seek(0)
                if not 0 <= stated <= most:
                    raise LimitError(f"{place}: expected a file that states at most {most} bytes, found {stated}")
                decoder = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
                with decoder.stream_reader(packed) as reader:
                    while data := reader.read(_BATCH_SIZE):
                        file.write(data)
            except zstandard.ZstdError as error:
                raise CodecError(f"{place}: expected a file of zstd: {error}") from error
            if file.tell() != stated:
                raise CodecError(f"{place}: expected {stated} bytes in the file of zstd, found {file.tell()}")
        yield LocalPlace(str(plain))
