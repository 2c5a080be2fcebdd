"""Write world-model data sets as a folder of .npz columns, with one JPEG per frame or one MP4 per episode."""

from __future__ import annotations

import contextlib
import re
import zipfile
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from wshard.errors import EpisodeError, FormatError
from wshard.formats.npz import map_npz
from wshard.formats.world_model.columns import LENGTHS, OFFSETS, TEXT, StepColumn
from wshard.formats.world_model.folder import (
    MEMBER,
    SUFFIX,
    VIDEO_SUFFIX,
    FolderRowsSource,
    ImageFolderSource,
    VideoFolderSource,
)
from wshard.formats.world_model.rows_sink import RowsSink, encode_mp4, image_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wshard.core.files.schemes import PathOrFile
    from wshard.core.types import Array, Channel

_FRAMES: Final = re.compile(r"ep_\d+(_step_\d+\.jpe?g|\.mp4)")
_COPIED_AT_ONCE: Final = 1 << 24
_QUALITY: Final = 75  # Pillow's default, which the original takes
_NAME: Final = re.compile(r"[^/\\\0]+")
_MAX_NAME: Final = 200  # bytes; files add to it


class FolderRowsSink(RowsSink):
    """Writes rows to temporary files, which become the .npz files at the end: memory holds one episode."""

    source: ClassVar[type[FolderRowsSource]]
    copies_all = True

    def _has_episodes(self) -> bool:
        return (self._target / f"{LENGTHS}{SUFFIX}").exists()

    def _begin(self, draft: Path, *, continues: bool) -> None:
        self._spools: dict[str, IO[bytes]] = {}
        self._lengths: list[int] = []
        if continues:
            with self.source(self._where) as source:
                if source.keys():
                    self._columns, self.count = source.stored_columns(), len(source.keys())

    def _column_of(self, name: str, block: str, rows: Any) -> StepColumn:
        if not _NAME.fullmatch(name) or len(name.encode(errors="surrogatepass")) > _MAX_NAME or name[0] == ".":
            raise EpisodeError(f"{self._where}: column {name!r}: expected a name that a file can have")
        return super()._column_of(name, block, rows)

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return the files of a data set below its folder: columns, and frames of its episodes."""
        if not (location / f"{LENGTHS}{SUFFIX}").exists():
            return []
        names = [path.name for path in location.glob(f"*{SUFFIX}") if _is_column(path)]
        for folder in location.iterdir():
            if folder.is_dir() and not folder.is_symlink():
                frames = sorted(file.name for file in folder.iterdir() if _FRAMES.fullmatch(file.name))
                names += [f"{folder.name}/{name}" for name in frames]
        return names

    def _append(self, columns: Mapping[str, Any], length: int) -> None:
        known = self._columns or {}
        for name, rows in columns.items():
            if known[name].encoding == self.frame_encoding:
                folder = self._path / name
                folder.mkdir(exist_ok=True)
                self._write_frames(folder, rows)
            else:
                self._spool(name, rows, is_text=known[name].encoding == TEXT)
        self._lengths.append(length)

    def _spool(self, name: str, rows: Any, *, is_text: bool) -> None:
        if name not in self._spools:
            self._spools[name] = (self._path / f".{name}.rows").open("w+b")
        if is_text:
            self._spools[name].write("".join(f"{text.encode().hex()}\n" for text in rows).encode())
        else:
            self._spools[name].write(np.ascontiguousarray(rows).data.cast("B") if rows.size else b"")

    def _write_frames(self, folder: Path, frames: Any) -> None:
        raise NotImplementedError

    def _finish(self, draft: Path) -> None:
        for column in (self._columns or {}).values():
            if column.encoding != self.frame_encoding:
                self._finish_column(column)
        before = self._old(LENGTHS)
        lengths = np.array([*([] if before is None else before.tolist()), *self._lengths], np.int32)
        offsets = (np.cumsum(lengths, dtype=np.int64) - lengths).astype(np.int64)
        for name, array in ((LENGTHS, lengths), (OFFSETS, offsets)):
            self._write_npz(name, array.dtype, array.shape, [array])

    def _old(self, name: str) -> Array | None:
        path = self._path / f"{name}{SUFFIX}"
        return map_npz(path, MEMBER) if path.exists() else None

    def _finish_column(self, column: StepColumn) -> None:
        old, spool = self._old(column.name), self._spools.pop(column.name, None)
        if spool is None:
            return
        with spool:
            spool.seek(0)
            if column.encoding == TEXT:
                texts = [bytes.fromhex(line.decode()).decode() for line in spool]
                array = np.array([*([] if old is None else old.tolist()), *texts])
                self._write_npz(column.name, array.dtype, array.shape, [array])
            else:
                rows = sum(self._lengths) + (0 if old is None else len(old))
                parts = [] if old is None else [old]
                self._write_npz(column.name, column.dtype, (rows, *column.shape), [*parts, spool])
        (self._path / f".{column.name}.rows").unlink()

    def _write_npz(self, name: str, dtype: Any, shape: tuple[int, ...], parts: list[Any]) -> None:
        path = self._path / f"{name}{SUFFIX}"
        new = path.with_name(f".{path.name}.new")
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        with (
            zipfile.ZipFile(new, "w", zipfile.ZIP_STORED) as archive,
            archive.open(zipfile.ZipInfo(f"{MEMBER}.npy"), "w", force_zip64=True) as member,
        ):
            np.lib.format.write_array_header_1_0(member, header)
            for part in parts:
                if isinstance(part, np.ndarray):
                    step = max(1, _COPIED_AT_ONCE // max(part[:1].nbytes, 1))
                    for start in range(0, len(part), step):
                        member.write(np.ascontiguousarray(part[start : start + step]).tobytes())
                else:
                    while data := part.read(_COPIED_AT_ONCE):
                        member.write(data)
        new.replace(path)  # does not change the older file behind a hard link

    def _release(self) -> None:
        for spool in self._spools.values():
            with contextlib.suppress(OSError):  # the disk is full
                spool.close()


class ImageFolderSink(FolderRowsSink):
    """Frames as `COLUMN/ep_E_step_T.jpeg`."""

    frame_encoding = "jpeg"
    source = ImageFolderSource

    def _encode_frames(self, channel: Channel) -> list[bytes]:
        return [*image_bytes(channel, _QUALITY)]

    def _write_frames(self, folder: Path, frames: Any) -> None:
        for step, image in enumerate(frames):
            (folder / f"ep_{self.count}_step_{step}.jpeg").write_bytes(image)


class VideoFolderSink(FolderRowsSink):
    """Frames as `COLUMN/ep_E.mp4`, in their original size; fps, codec: of the videos."""

    frame_encoding = "mp4"
    source = VideoFolderSource

    def __init__(self, location: PathOrFile, *, fps: float = 25, codec: str = "libx264", **options: Any) -> None:
        self.fps, self.codec = fps, codec
        super().__init__(location, **options)

    def _encode_frames(self, channel: Channel) -> bytes:
        return encode_mp4(channel, self.fps, self.codec)

    def _write_frames(self, folder: Path, frames: Any) -> None:
        (folder / f"ep_{self.count}{VIDEO_SUFFIX}").write_bytes(frames)


def _is_column(path: Path) -> bool:
    try:
        map_npz(path, MEMBER)
    except (FormatError, OSError):
        return False
    return True
