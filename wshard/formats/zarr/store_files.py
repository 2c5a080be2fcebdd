"""The files of a zarr store in a folder or a .zip, read without the zarr library."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any, Final

from wshard.container.open_file import open_file
from wshard.errors import FormatError, LimitError

ENDS: Final = "meta/episode_ends"
METADATA_NAMES: Final = (".zarray", "zarr.json")
_MAX_JSON: Final = 1 << 24
_MAX_MEMBER: Final = 1 << 30


class ZarrFolder:
    """A store in a folder."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read_json(self, name: str) -> Any:
        """Return the JSON of a file, None if it does not exist; raises FormatError."""
        try:
            with open_file(self.path / name) as file:
                text = file.read(_MAX_JSON + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _parse(text, f"{self.path}: {name}")

    def state(self, name: str) -> tuple[int, int] | None:
        """Return size and time of a file, None if it does not exist."""
        try:
            status = os.stat(self.path / name)  # noqa: PTH116  (called very often: faster than pathlib)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_size, status.st_mtime_ns

    def read(self, name: str, size: int) -> bytes:
        """Return up to `size` bytes of a file, none if it does not exist."""
        try:
            with open_file(self.path / name) as file:
                return file.read(size)
        except (FileNotFoundError, NotADirectoryError):
            return b""

    def groups(self, name: str) -> list[str]:
        """Return the names of the groups and arrays in a group; raises FormatError if it is not a group."""
        try:
            with os.scandir(self.path / name) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FormatError(f"{self.path}: expected the group {name}, found none") from error

    def close(self) -> None:
        """Do nothing."""


class ZarrZip:
    """A store in a .zip; raises FormatError, LimitError for members of more than 1 GiB."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file = open_file(path)
        try:
            self._zip = zipfile.ZipFile(self._file)
            self._members = {member.filename: member for member in self._zip.infolist()}
            largest = max((member.file_size for member in self._members.values()), default=0)
            if largest > _MAX_MEMBER:
                raise LimitError(f"{path}: expected members of at most {_MAX_MEMBER} bytes, found {largest}")
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            self._file.close()
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{path}: expected a .zip: {error}") from error

    def read_json(self, name: str) -> Any:
        """Return the JSON of a member, None if it does not exist; raises FormatError."""
        if name not in self._members:
            return None
        where = f"{self.path}: {name}"
        try:
            with self._zip.open(name) as file:
                return _parse(file.read(_MAX_JSON + 1), where)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise FormatError(f"{where}: cannot be read: {error}") from error

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
            raise FormatError(f"{self.path}: {name}: cannot be read: {error}") from error

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


def _parse(text: bytes, where: str) -> Any:
    if len(text) > _MAX_JSON:
        raise LimitError(f"{where}: expected at most {_MAX_JSON} bytes, found more")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where}: expected JSON: {error}") from error
