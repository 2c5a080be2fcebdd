"""The files of a zarr store in a folder or a .zip, read without the zarr library."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wshard.core.files.place import parse_json
from wshard.core.plugins import import_library
from wshard.errors import FormatError, LimitError

if TYPE_CHECKING:
    from wshard.core.files.place import Place

ENDS: Final = "meta/episode_ends"
METADATA_NAMES: Final = (".zarray", "zarr.json")
_MAX_JSON: Final = 1 << 24
_MAX_MEMBER: Final = 1 << 30


class ZarrFolder:
    """A store in a folder."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def read_json(self, name: str) -> Any:
        """Return the JSON of a file, None if it does not exist; raises FormatError."""
        try:
            return (self.place / name).read_json(_MAX_JSON)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def state(self, name: str) -> tuple[int, int] | None:
        """Return size and time of a file, None if it does not exist."""
        try:
            status = (self.place / name).status()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.size, status.mtime_ns

    def read(self, name: str, size: int) -> bytes:
        """Return up to `size` bytes of a file, none if it does not exist."""
        try:
            return (self.place / name).read(0, size)
        except (FileNotFoundError, NotADirectoryError):
            return b""

    def groups(self, name: str) -> list[str]:
        """Return the names of the groups and arrays in a group; raises FormatError if it is not a group."""
        try:
            return sorted(entry.name for entry in (self.place / name).entries() if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FormatError(f"{self.place}: expected the group {name}, found none") from error

    def close(self) -> None:
        """Do nothing."""


class ZarrZip:
    """A store in a .zip; raises FormatError, LimitError for members of more than 1 GiB."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._file = place.open()
        try:
            self._zip = zipfile.ZipFile(self._file)
            self._members = {member.filename: member for member in self._zip.infolist()}
            largest = max((member.file_size for member in self._members.values()), default=0)
            if largest > _MAX_MEMBER:
                raise LimitError(f"{place}: expected members of at most {_MAX_MEMBER} bytes, found {largest}")
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            self._file.close()
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{place}: expected a .zip: {error}") from error

    def read_json(self, name: str) -> Any:
        """Return the JSON of a member, None if it does not exist; raises FormatError."""
        if name not in self._members:
            return None
        return parse_json(self.read(name, _MAX_JSON + 1), _MAX_JSON, f"{self.place}: {name}")

    def state(self, name: str) -> tuple[int, int] | None:
        """Return size and checksum of a member, None if it does not exist."""
        member = self._members.get(name)
        return None if member is None else (member.file_size, member.CRC)

    def read(self, name: str, size: int) -> bytes:
        """Return up to `size` bytes of a member, none if it does not exist; raises FormatError."""
        if name not in self._members:
            return b""
        try:
            with self._zip.open(name) as file:
                return file.read(size)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise FormatError(f"{self.place}: {name}: cannot be read: {error}") from error

    def groups(self, name: str) -> list[str]:
        """Return the names of the groups and arrays in a group."""
        prefix = f"{name}/"
        parts = (
            member_name[len(prefix) :].partition("/") for member_name in self._members if member_name.startswith(prefix)
        )
        return sorted({head for head, slash, _ in parts if slash})

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
        self._file.close()


ZarrFiles = ZarrFolder | ZarrZip


class StoreBuffers(Mapping[str, Any]):
    """The files of a store that is not on a local disk, as buffers of the zarr library."""

    def __init__(self, files: ZarrFiles) -> None:
        self._files = files
        self._make_buffer = import_library("zarr.core.buffer", "zarr").default_buffer_prototype().buffer.from_bytes

    def __getitem__(self, name: str) -> Any:
        state = self._files.state(name)
        if state is None:
            raise KeyError(name)
        return self._make_buffer(self._files.read(name, state[0]))

    def __contains__(self, name: object) -> bool:
        return self._files.state(str(name)) is not None

    def __iter__(self) -> NoReturn:
        raise NotImplementedError  # arrays are listed without the library

    def __len__(self) -> NoReturn:
        raise NotImplementedError
