"""mem://: a URI scheme in a few lines, whose files are in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.core.files.place import FileStatus, Place, PlainEntry

if TYPE_CHECKING:
    from pathlib import Path

FILES: dict[str, bytes] = {}


class MemoryPlace(Place):
    """A file or folder of FILES."""

    __slots__ = ()

    def entries(self):
        """Return the names directly in a folder."""
        inside = [name[len(self.uri) + 1 :].partition("/") for name in FILES if name.startswith(f"{self.uri}/")]
        if not inside:
            raise FileNotFoundError(f"{self.uri}: no such folder")
        return [PlainEntry(name, folder) for name, folder in sorted({(head, bool(slash)) for head, slash, _ in inside})]

    def status(self):
        """Return size and version of a file."""
        if self.is_dir():
            return FileStatus(0, 0)
        if self.uri not in FILES:
            raise FileNotFoundError(f"{self.uri}: no such file")
        return FileStatus(len(FILES[self.uri]), hash(FILES[self.uri]) & 0x7FFF_FFFF)

    def is_dir(self):
        """Return True for a folder."""
        return any(name.startswith(f"{self.uri}/") for name in FILES)

    def read(self, start, stop):
        """Return a range of a file."""
        self.status()
        return FILES[self.uri][start:stop]


def upload(path: Path, uri: str) -> None:
    """Copy a file or a folder of the disk."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            FILES[f"{uri}/{file.relative_to(path).as_posix()}".removesuffix("/.")] = file.read_bytes()
