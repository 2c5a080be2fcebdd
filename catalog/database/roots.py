"""How absolute paths are stored: as a row of the table root and a path relative to it.

`base` is the catalog's folder, None for a server; a connection knows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from sqlalchemy import Connection, insert, select

from catalog.database.schema import root

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


BASE: Final = "base"
"""The key of the catalog's folder in what a connection knows (Connection.info)."""

StoredPath: TypeAlias = tuple[int, str]
"""A path as stored: the id of a root, and the path relative to it."""


@dataclass(frozen=True)
class Roots:
    """The roots by absolute folder; after a move of the archive two of them may name the same folder."""

    base: str | None
    folders: dict[str, list[int]] = field(default_factory=dict)
    _above: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # folder -> (root, where paths begin)

    def stored_paths(self, path: str) -> list[StoredPath]:
        """Return all stored forms of this absolute path, the deepest root first."""
        return [(root_id, path[start:]) for root_id, start in self._roots_of(path)]

    def stored_path(self, path: str) -> StoredPath:
        """Return the first of these; there must be one."""
        root_id, start = self._roots_of(path)[0]
        return root_id, path[start:]

    def _roots_of(self, path: str) -> list[tuple[int, int]]:
        folder = path.rpartition("/")[0]
        if folder not in self._above:
            self._above[folder] = [
                (root_id, len(ancestor.rstrip("/")) + 1)
                for ancestor in ancestors(path)
                for root_id in self.folders.get(ancestor, ())
            ]
        return self._above[folder]

    def add(self, folder: str, root_id: int) -> None:
        """Add a root."""
        self.folders.setdefault(folder, []).append(root_id)
        self._above.clear()


_ROOTS: Final = select(root.c.id, root.c.place, root.c.inside).order_by(
    root.c.id
)  # built once, as every search runs it


def base_of(connection: Connection) -> str | None:
    """Return the folder of the connection's catalog, None for a server."""
    base: str | None = connection.info[BASE]
    return base


def load_roots(connection: Connection) -> Roots:
    """Return all roots."""
    base = base_of(connection)
    roots = Roots(base)
    for root_id, place, inside in connection.execute(_ROOTS):
        roots.add(absolute(base, place, inside=inside), root_id)
    return roots


def add_root(connection: Connection, folder: str, *, roots: Roots) -> int:
    """Return the id of the root at this absolute folder; created, and added to `roots`, if there is none."""
    if existing := roots.folders.get(folder):
        return existing[0]
    inside = relative(folder, roots.base)
    values = {"place": folder if inside is None else inside, "inside": inside is not None}
    key = connection.execute(insert(root).values(values)).inserted_primary_key
    root_id = int(key[0]) if key else 0
    roots.add(folder, root_id)
    return root_id


def add_roots(connection: Connection, paths: Iterable[str], *, roots: Roots) -> None:
    """Create roots for the folders of paths that are not below any root."""
    path_by_folder = {path.rpartition("/")[0]: path for path in paths}
    for folder, path in path_by_folder.items():
        if not roots.stored_paths(path):
            add_root(connection, folder or "/", roots=roots)


def ancestors(path: str) -> Iterator[str]:
    """Yield the folders that contain an absolute path or a URI, the deepest first."""
    while path != "/" and not path.endswith(":"):
        path = path.rpartition("/")[0] or "/"
        yield path


def relative(path: str, folder: str | None) -> str | None:
    """Return the path relative to the folder, "" for the folder itself, None if it is outside."""
    if folder is None:
        return None
    if path == folder:
        return ""
    start = folder.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None


def join(folder: str, path: str) -> str:
    """Return the absolute path of a path relative to a folder."""
    return f"{folder.rstrip('/')}/{path}" if path else folder


def absolute(base: str | None, place: str, *, inside: bool) -> str:
    """Return the absolute folder of a root."""
    return join(base, place) if inside and base else place
