"""Rows of the arrays of a large .npz file: mapped if uncompressed, otherwise decompressed as far as needed."""

from __future__ import annotations

import io
import math
import zipfile
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from wshard.core.files.local import LocalPlace
from wshard.errors import FormatError, LimitError
from wshard.formats.npz import MAX_MEMBER_SIZE, check_members, map_npz, read_npy_header, translate_npz_errors

if TYPE_CHECKING:
    from wshard.core.files.place import Place
    from wshard.core.types import Array


class NpzColumn:
    """An array [rows, ...] that is read by slices; sequential reads are fast. Raises FormatError, LimitError."""

    def __init__(self, member: zipfile.ZipExtFile, size: int, where: str, *, any_order: bool = False) -> None:
        self._member, self._where = member, where
        shape, fortran, self.dtype, self._data_start = read_npy_header(io.BytesIO(member.read(1 << 14)), where)
        if math.prod(shape) * self.dtype.itemsize != size - self._data_start:
            raise FormatError(f"{where}: {self.dtype} {list(shape)} does not fit the {size} bytes of the array")
        self._is_fortran = fortran and len(shape) > 1
        if self._is_fortran and not any_order:
            raise FormatError(f"{where}: expected an array in C order, found one in Fortran order")
        if self._is_fortran and size > MAX_MEMBER_SIZE:
            raise LimitError(f"{where}: {size} bytes in Fortran order, limit {MAX_MEMBER_SIZE}: save it in C order")
        self.shape = shape

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    def __getitem__(self, rows: Any) -> Array:
        """Return the rows of a slice, a single row, values of one as in [row, start:stop], or everything for ()."""
        if self._is_fortran:
            return cast("Array", self._whole[rows])
        if rows == ():
            array: Array = self[0 : self.shape[0]] if self.shape else self._read(0, 1).reshape(())
            return array
        if isinstance(rows, tuple):
            return self[rows[0]][rows[1:]]
        if not isinstance(rows, slice):
            return cast("Array", self[rows : rows + 1][0])
        start, stop, _ = rows.indices(self.shape[0])
        step = math.prod(self.shape[1:])
        return self._read(start * step, (stop - start) * step).reshape(stop - start, *self.shape[1:])

    @cached_property
    def _whole(self) -> Array:
        return self._read(0, self.size).reshape(self.shape, order="F")

    def _read(self, first: int, count: int) -> Array:
        with translate_npz_errors(self._where):
            self._member.seek(self._data_start + first * self.dtype.itemsize)
            data = bytearray(count * self.dtype.itemsize)
            count_read = io.BufferedReader(cast("io.RawIOBase", _Unclosed(self._member))).readinto(data)
        if count_read != len(data):
            raise FormatError(f"{self._where}: expected {len(data)} bytes of rows, found {count_read}")
        return np.frombuffer(data, self.dtype)


class _Unclosed(io.RawIOBase):
    """A raw view of a zip member that stays open when its buffered reader is closed."""

    def __init__(self, member: zipfile.ZipExtFile) -> None:
        self._member = member

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._member.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class NpzRows:
    """An open .npz file. any_order: arrays in Fortran order are read, too, each as a whole if it is compressed."""

    def __init__(self, place: Place, *, any_order: bool = False) -> None:
        self._place, self._where, self._any_order = place, str(place), any_order
        self._file = place.open()
        self._columns: dict[str, Any] = {}
        try:
            with translate_npz_errors(self._where):
                self._archive = zipfile.ZipFile(self._file)
                self.members = check_members(self._archive, self._where, in_parts=True)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file; rows returned earlier stay valid."""
        self._columns = {}
        vars(self).pop("_mapped", None)
        self._archive.close()
        self._file.close()

    @cached_property
    def _mapped(self) -> Array | None:
        """The bytes of the file, mapped once for all arrays: each map is an open file."""
        return np.memmap(self._file, np.uint8, "r") if isinstance(self._place, LocalPlace) else None

    def column(self, name: str) -> Any:
        """Return an array by its name, which is read by slices; raises FormatError."""
        where = f"{self._where}: {name!r}"
        if name not in self.members:
            raise FormatError(f"{self._where}: expected an array {name!r}, found {', '.join(self.members)}")
        if name not in self._columns:
            info = self.members[name]
            with translate_npz_errors(where):
                is_stored = info.compress_type == zipfile.ZIP_STORED
                if is_stored:
                    self._columns[name] = map_npz(self._place, name, self._mapped)
                else:
                    member: Any = self._archive.open(info)
                    self._columns[name] = NpzColumn(member, info.file_size, where, any_order=self._any_order)
        return self._columns[name]
