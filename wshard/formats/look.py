"""Facts about a place, looked up once and shared by all formats that try to recognise it."""

from __future__ import annotations

import itertools
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from wshard.core.files.schemes import place_of
from wshard.errors import FormatError
from wshard.formats.npz import ZIP_MAGIC, array_names

if TYPE_CHECKING:
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location

_MAX_NAMES: Final = 4096
_HEAD_SIZE: Final = 4096
_MAX_JSON: Final = 1 << 24


class LocationLook(os.PathLike[str]):
    """A place with cached facts about it. Nothing raises an error for a missing place.

    found: a cache for formats that share a look-up, by a name that they agree on. For formats of other packages, it
    stands for the path of a local place.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.found: dict[str, Any] = {}

    def __fspath__(self) -> str:
        return self.place.local_path()

    @cached_property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.place.is_dir()

    @cached_property
    def suffix(self) -> str:
        """The suffix of the name in lower case, such as ".h5"."""
        return self.place.suffix.lower()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the folder, at most 4,096 of them; none for a file."""
        if not self.is_folder:
            return frozenset()
        try:
            return frozenset(entry.name for entry in itertools.islice(self.place.entries(), _MAX_NAMES))
        except OSError:
            return frozenset()

    @cached_property
    def head(self) -> bytes:
        """The first 4,096 bytes of a file; empty for a folder or an unreadable file."""
        if self.is_folder:
            return b""
        try:
            return self.place.read(0, _HEAD_SIZE)
        except (OSError, FormatError):
            return b""

    def ends_within(self, magic: bytes, suffix: str) -> bool:
        """Return whether it is a file of this suffix that was cut within the first bytes that tell what it is."""
        return (
            self.suffix == suffix
            and len(self.head) < len(magic)
            and magic.startswith(self.head)
            and self.place.is_file()
        )

    @cached_property
    def array_names(self) -> frozenset[str]:
        """The names of the arrays of an .npz file, which may have any name; none for another or a damaged file."""
        if not self.head.startswith(ZIP_MAGIC):
            return frozenset()
        try:
            with self.place.open() as file:
                return array_names(file) or frozenset()
        except (OSError, FormatError):
            return frozenset()

    def read_json(self, name: str) -> Any:
        """Return the JSON of a file of at most 16 MiB in the folder, None if there is no readable one."""
        try:
            return (self.place / name).read_json(_MAX_JSON)
        except (OSError, FormatError):
            return None

    def exists(self, name: str) -> bool:
        """Return True if the folder has a file or folder of this relative path."""
        return (self.place / name).exists()


def look_at(location: Location | LocationLook) -> LocationLook:
    """Return the facts about a location; those that another format looked up are shared."""
    return location if isinstance(location, LocationLook) else LocationLook(place_of(location))
