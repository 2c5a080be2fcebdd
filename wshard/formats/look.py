"""Facts about a path, looked up once and shared by all formats that try to recognise it."""

from __future__ import annotations

import itertools
import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from wshard.container.open_file import open_file
from wshard.errors import FormatError
from wshard.formats.npz import ZIP_MAGIC, array_names

_MAX_NAMES: Final = 4096
_HEAD_SIZE: Final = 4096
_MAX_JSON: Final = 1 << 24


class LocationLook(os.PathLike[str]):
    """A path with cached facts about it. Nothing raises an error for a missing path.

    found: a cache for formats that share a look-up, by a name that they agree on.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.found: dict[str, Any] = {}

    def __fspath__(self) -> str:
        return self.path

    @cached_property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return os.path.isdir(self.path)  # noqa: PTH112  (Path.is_dir can raise)

    @cached_property
    def suffix(self) -> str:
        """The suffix of the name in lower case, such as ".h5"."""
        return os.path.splitext(self.path)[1].lower()  # noqa: PTH122  (called very often: faster than pathlib)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the folder, at most 4,096 of them; none for a file."""
        if not self.is_folder:
            return frozenset()
        try:
            with os.scandir(self.path) as entries:
                return frozenset(entry.name for entry in itertools.islice(entries, _MAX_NAMES))
        except OSError:
            return frozenset()

    @cached_property
    def head(self) -> bytes:
        """The first 4,096 bytes of a file; empty for a folder or an unreadable file."""
        if self.is_folder:
            return b""
        try:
            with open_file(self.path) as file:
                return file.read(_HEAD_SIZE)
        except (OSError, FormatError):
            return b""

    @cached_property
    def array_names(self) -> frozenset[str]:
        """The names of the arrays of an .npz file, which may have any name; none for another or a damaged file."""
        if not self.head.startswith(ZIP_MAGIC):
            return frozenset()
        try:
            with open_file(self.path) as file:
                return array_names(file) or frozenset()
        except (OSError, FormatError):
            return frozenset()

    def read_json(self, name: str) -> Any:
        """Return the JSON of a file of at most 16 MiB in the folder, None if there is no readable one."""
        try:
            with open_file(Path(self.path, name)) as file:
                text = file.read(_MAX_JSON + 1)
            return json.loads(text) if len(text) <= _MAX_JSON else None
        except (OSError, ValueError, RecursionError):
            return None

    def exists(self, name: str) -> bool:
        """Return True if the folder has a file or folder of this relative path."""
        return os.path.exists(os.path.join(self.path, name))  # noqa: PTH110, PTH118  (Path.exists can raise)
