"""The encoded images of a column of a Parquet file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from wshard.errors import FormatError
from wshard.formats.lerobot.open_parquet import translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_BATCH: Final = 16  # images that are read at once


class _Batches(Protocol):
    """A Parquet file that is read by batches."""

    path: str

    def batches(self, name: str, start: int, stop: int, size: int) -> Iterator[Any]:
        """Yield rows [start, stop) of a column in Arrow arrays of at most `size` rows."""


class ImageColumn:
    """The encoded images of consecutive rows; sequential access reads small batches."""

    def __init__(self, file: _Batches, name: str, start: int, stop: int) -> None:
        self._file, self._name, self._start, self._stop = file, name, start, stop
        self._batches: Iterator[Any] = iter(())
        self._column_index = stop - start
        self._batch: list[bytes | None] = []

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, step: int) -> bytes:
        """Return the bytes of one image; raises FormatError where there are none."""
        if not self._column_index <= step < self._column_index + len(self._batch) + _BATCH:
            self._batches = self._file.batches(self._name, self._start + step, self._stop, _BATCH)
            self._column_index, self._batch = step, []
        while step >= self._column_index + len(self._batch):
            self._column_index += len(self._batch)
            with translate_errors(self._file.path):
                rows = next(self._batches, None)
                self._batch = [None] if rows is None else [row and row["bytes"] for row in rows.to_pylist()]
        image = self._batch[step - self._column_index]
        if not image:
            where = f"{self._file.path}: column {self._name!r}: row {self._start + step}"
            raise FormatError(f"{where}: expected the bytes of an image, found none")
        return image
