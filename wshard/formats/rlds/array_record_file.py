"""ArrayRecord files, read by the library array_record, which verifies checksums."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from wshard.core.plugins import import_library
from wshard.errors import FormatError

if TYPE_CHECKING:
    from wshard.core.files.place import Place

_OPTIONS: Final = "readahead_buffer_size:0,max_parallelism:0"  # for random access


class ArrayRecordFile:
    """An open ArrayRecord file."""

    def __init__(self, place: Place) -> None:
        self.where = place.local_path()
        library = import_library("array_record.python.array_record_module", "rlds")
        place.open().close()  # its errors name the path
        try:
            self._reader: Any = library.ArrayRecordReader(self.where, _OPTIONS)
            self._count = int(self._reader.num_records())
        except (RuntimeError, ValueError) as error:
            raise FormatError(f"{self.where}: expected an ArrayRecord file: {error}") from error

    def read(self, number: int) -> memoryview:
        """Return the data of a record; raises FormatError for a damaged or missing one."""
        if number >= self._count:
            raise FormatError(f"{self.where}: expected {number + 1} records or more, found {self._count}")
        try:
            return memoryview(self._reader.read([number])[0])
        except (RuntimeError, ValueError, IndexError, MemoryError) as error:
            raise FormatError(f"{self.where}: record {number}: cannot be read: {error}") from error

    def check(self, number: int) -> None:
        """Do nothing: reading compares checksums."""

    def close(self) -> None:
        """Close the file; the library repeats read errors."""
        with contextlib.suppress(RuntimeError):
            self._reader.close()
